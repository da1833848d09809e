#include "launcher/process/worker_environment.h"

#include <algorithm>
#include <optional>

namespace dabke::launcher {
namespace {

bool has_variable(const std::vector<std::string>& environment, std::string_view name) {
  return std::ranges::any_of(environment, [&](const std::string& each) {
    return each.size() > name.size() && each.starts_with(name) && each[name.size()] == '=';
  });
}

void remove_variable(std::vector<std::string>& environment, std::string_view name) {
  const std::string entry = std::string(name) + "=";
  std::erase_if(environment, [&](const std::string& each) { return each.starts_with(entry); });
}

}  // namespace

void set_variable(std::vector<std::string>& environment, std::string_view name, std::string_view value) {
  remove_variable(environment, name);
  environment.push_back((std::string(name) + "=").append(value));
}

std::string variable_in(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& each : environment) {
    if (each.starts_with(name + "=")) return each.substr(name.size() + 1);
  }
  return "";
}

std::vector<std::string> worker_environment(const std::vector<std::string>& inherited, const JobFacts& job,
                                            const RankPlacement& placement) {
  std::vector<std::string> environment = inherited;
  // In an elastic job only the local rank stays the same from epoch to epoch.
  const auto known = [&](int number) { return job.is_elastic ? std::nullopt : std::optional(number); };
  const std::pair<std::string_view, std::optional<int>> numbers[] = {
      {"RANK", known(placement.rank)},
      {"SIZE", known(placement.size)},
      {"LOCAL_RANK", placement.local_rank},
      {"LOCAL_SIZE", known(placement.local_size)},
      {"CROSS_RANK", known(placement.cross_rank)},
      {"CROSS_SIZE", known(placement.cross_size)},
  };
  for (const auto& [name, value] : numbers) {
    // Scripts written for Horovod read HOROVOD_RANK and its siblings themselves.
    for (const std::string_view prefix : {"DABKE_", "HOROVOD_"}) {
      const std::string full = std::string(prefix).append(name);
      if (value) {
        set_variable(environment, full, std::to_string(*value));
      } else {
        remove_variable(environment, full);
      }
    }
  }
  if (job.is_elastic) {
    set_variable(environment, "DABKE_ELASTIC_WORKER", std::to_string(placement.rank));
    set_variable(environment, "HOROVOD_ELASTIC", "1");
  }
  set_variable(environment, "DABKE_HOSTNAME", placement.host);
  set_variable(environment, "DABKE_RENDEZVOUS", job.rendezvous);
  set_variable(environment, "DABKE_GATHERS_DUMPS", "1");
  set_variable(environment, "DABKE_JOB_ID", job.job_id);
  set_variable(environment, "DABKE_JOB_KEY", job.job_key);
  for (const auto& [name, value] : job.variables) set_variable(environment, name, value);
  // Otherwise the output of Python ranks would arrive late, and be lost when a rank is killed.
  if (!has_variable(environment, "PYTHONUNBUFFERED")) set_variable(environment, "PYTHONUNBUFFERED", "1");
  return environment;
}

}  // namespace dabke::launcher

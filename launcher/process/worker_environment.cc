#include "launcher/process/worker_environment.h"

#include <algorithm>

namespace dabke::launcher {
namespace {

bool has_variable(const std::vector<std::string>& environment, std::string_view name) {
  return std::ranges::any_of(environment, [&](const std::string& each) {
    return each.size() > name.size() && each.starts_with(name) && each[name.size()] == '=';
  });
}

}  // namespace

void set_variable(std::vector<std::string>& environment, std::string_view name, std::string_view value) {
  std::string entry = std::string(name) + "=";
  std::erase_if(environment, [&](const std::string& each) { return each.starts_with(entry); });
  environment.push_back(entry.append(value));
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
  const std::pair<std::string_view, int> numbers[] = {
      {"RANK", placement.rank},
      {"SIZE", placement.size},
      {"LOCAL_RANK", placement.local_rank},
      {"LOCAL_SIZE", placement.local_size},
      {"CROSS_RANK", placement.cross_rank},
      {"CROSS_SIZE", placement.cross_size},
  };
  for (const auto& [name, value] : numbers) {
    // Scripts written for Horovod read HOROVOD_RANK and its siblings themselves.
    for (const std::string_view prefix : {"DABKE_", "HOROVOD_"}) {
      set_variable(environment, std::string(prefix).append(name), std::to_string(value));
    }
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

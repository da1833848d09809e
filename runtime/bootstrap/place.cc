#include "runtime/bootstrap/place.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/bootstrap/elastic/words.h"
#include "runtime/bootstrap/other_launchers.h"

namespace dabke::bootstrap {
namespace {

constexpr const char* kWorkerVariable = "DABKE_ELASTIC_WORKER";

struct Number {
  std::string name;
  int value;
};

Result<std::optional<Number>> number(const Environment& environment, std::string_view name, int least) {
  const auto found = look_up(environment, name);
  if (!found) return std::optional<Number>();
  int value = 0;
  const char* last = found->value.data() + found->value.size();
  const auto [end, error] = std::from_chars(found->value.data(), last, value);
  if (error == std::errc() && end == last && value >= least && value <= kMostProcesses) {
    return std::optional(Number{found->name, value});
  }
  return Status(Code::invalid_argument, fmt::format("{} is '{}', but must be a whole number from {} to {}",
                                                    found->name, found->value, least, kMostProcesses));
}

Status check_below(const Number& rank, const Number& size) {
  if (rank.value < size.value) return {};
  return {Code::invalid_argument, fmt::format("{} is {}, but must be below {}, which is {}", rank.name,
                                              rank.value, size.name, size.value)};
}

Result<std::optional<HostPlacement>> placement_from(const Environment& environment, int size) {
  constexpr std::string_view kNames[] = {"LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"};
  std::vector<Number> numbers;
  std::vector<std::string> absent;
  for (const auto name : kNames) {
    DABKE_ASSIGN_OR_RETURN(auto found, number(environment, name, name.ends_with("SIZE") ? 1 : 0));
    if (found) {
      numbers.push_back(*found);
    } else {
      absent.push_back(fmt::format("DABKE_{}", name));
    }
  }
  if (numbers.empty()) return std::optional<HostPlacement>();
  if (!absent.empty()) {
    return Status(
        Code::invalid_argument,
        fmt::format(
            "{} is set but not {}; set all of LOCAL_RANK, LOCAL_SIZE, CROSS_RANK and CROSS_SIZE, or none",
            numbers.front().name, fmt::join(absent, ", ")));
  }
  DABKE_RETURN_IF_ERROR(check_below(numbers[0], numbers[1]));
  DABKE_RETURN_IF_ERROR(check_below(numbers[2], numbers[3]));
  for (const Number& one : {numbers[1], numbers[3]}) {
    if (one.value > size) {
      return Status(Code::invalid_argument,
                    fmt::format("{} is {}, above the size of the job, {}", one.name, one.value, size));
    }
  }
  return std::optional(HostPlacement{numbers[0].value, numbers[1].value, numbers[2].value, numbers[3].value});
}

Status take_secret(const Environment& environment, PlaceInJob& given) {
  const auto secret = [&](const char* name) -> std::optional<Variable> {
    auto value = environment(name);
    return value && !value->empty() ? std::optional(Variable{name, *value}) : std::nullopt;
  };
  given.job_id = secret("DABKE_JOB_ID");
  given.job_key = secret("DABKE_JOB_KEY");
  if (given.job_id.has_value() != given.job_key.has_value()) {
    return Status(Code::invalid_argument, fmt::format("{} is set but {} is not; set both, or neither",
                                                      given.job_id ? "DABKE_JOB_ID" : "DABKE_JOB_KEY",
                                                      given.job_id ? "DABKE_JOB_KEY" : "DABKE_JOB_ID"));
  }
  return {};
}

/// Rank and size, as a launcher has set them.
Status take_rank(const Environment& environment, PlaceInJob& given) {
  DABKE_ASSIGN_OR_RETURN(auto rank, number(environment, "RANK", 0));
  DABKE_ASSIGN_OR_RETURN(auto size, number(environment, "SIZE", 1));
  if (given.rendezvous && !rank && !size) {  // the place to meet was not set by a launcher of ours
    if (const auto other = find_other_launcher(environment); other && other->size_is_known) {
      rank = Number{other->name, other->rank};
      size = Number{other->name, other->size};
    }
  }
  if (rank && !size) {
    return Status(
        Code::invalid_argument,
        fmt::format("{} is set but DABKE_SIZE is not; set both, or start with dabkerun", rank->name));
  }
  if (size && size->value > 1 && !rank) {
    return Status(Code::invalid_argument,
                  fmt::format("{} is {} but DABKE_RANK is not set; set both, or start with dabkerun",
                              size->name, size->value));
  }
  if (given.rendezvous && !size) {
    return Status(Code::invalid_argument,
                  "DABKE_RENDEZVOUS is set but DABKE_SIZE is not, and no known launcher gave this process a "
                  "rank; set DABKE_RANK and DABKE_SIZE as well, or start with dabkerun");
  }
  if (size) given.size = size->value;
  if (rank) {
    given.rank = rank->value;
    DABKE_RETURN_IF_ERROR(check_below(*rank, *size));
  }
  if (given.size > 1 && !given.rendezvous) {
    return Status(
        Code::invalid_argument,
        fmt::format(
            "{} is {} but DABKE_RENDEZVOUS is not set, so the ranks cannot find each other; start with "
            "dabkerun, or set it to file:/a/directory/that/all/ranks/see",
            size->name, given.size));
  }
  DABKE_ASSIGN_OR_RETURN(given.placement, placement_from(environment, given.size));
  return take_secret(environment, given);
}

/// The place of a process that dabkerun has started for an elastic job. It has a number instead of a rank.
Status take_worker(const Environment& environment, PlaceInJob& given) {
  const std::string text = environment(kWorkerVariable).value_or("");
  given.worker = number_of<WorkerId>(text);
  if (!given.worker || *given.worker < 0) {
    return {Code::invalid_argument,
            fmt::format("{} is '{}', but must be a number that dabkerun has given; unset it, or start with "
                        "dabkerun --min-np",
                        kWorkerVariable, text)};
  }
  DABKE_RETURN_IF_ERROR(take_secret(environment, given));
  if (given.rendezvous && given.job_id) return {};
  return {
      Code::invalid_argument,
      fmt::format("{} is set but not {}; start with dabkerun --min-np, which sets all of them",
                  kWorkerVariable, given.rendezvous ? "DABKE_JOB_ID and DABKE_JOB_KEY" : "DABKE_RENDEZVOUS")};
}

}  // namespace

std::optional<Variable> look_up(const Environment& environment, std::string_view name) {
  for (const std::string_view vendor : {"DABKE_", "HOROVOD_"}) {
    const std::string full = fmt::format("{}{}", vendor, name);
    if (auto value = environment(full); value && !value->empty()) return Variable{full, std::move(*value)};
  }
  return std::nullopt;
}

Result<std::string> host_name(const Environment& environment) {
  std::string host;
  std::string source = "gethostname()";
  if (const auto given = look_up(environment, "HOSTNAME")) {
    host = given->value;
    source = given->name;
  } else {
    char buffer[256] = "";
    if (::gethostname(buffer, sizeof buffer - 1) != 0) return system_error("gethostname", errno);
    host = buffer;
  }
  const auto bad = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 127; };
  if (!host.empty() && std::ranges::none_of(host, bad)) return host;
  return Status(
      Code::invalid_argument,
      fmt::format("{} gives '{}', which is not a host name; set DABKE_HOSTNAME to a name without spaces",
                  source, host));
}

bool is_elastic(const Environment& environment) {
  const auto worker = environment(kWorkerVariable);
  return worker && !worker->empty();
}

Result<PlaceInJob> place_from_environment(const Environment& environment) {
  PlaceInJob given;
  given.rendezvous = environment("DABKE_RENDEZVOUS");
  if (given.rendezvous && given.rendezvous->empty()) given.rendezvous.reset();
  given.gathers_dumps = environment("DABKE_GATHERS_DUMPS") == "1";
  given.merges_timeline = environment("DABKE_MERGES_TIMELINE").value_or("");
  DABKE_RETURN_IF_ERROR(is_elastic(environment) ? take_worker(environment, given)
                                                : take_rank(environment, given));
  DABKE_ASSIGN_OR_RETURN(given.host, host_name(environment));
  return given;
}

}  // namespace dabke::bootstrap

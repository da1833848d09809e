#include "launcher/cli/flags/elastic_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "launcher/cli/flags/flag_parser.h"
#include "launcher/hosts/hosts.h"
#include "launcher/hosts/placement.h"

namespace dabke::launcher {
namespace {

constexpr double kMostSeconds = 1e7;
constexpr double kMostCooldown = 3600;  // as in Horovod

Status take_number(std::string_view flag, const std::string& text, int least, int most, int& number) {
  if (text.empty()) return {};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error == std::errc() && end == last && number >= least && number <= most) return {};
  return {Code::invalid_argument,
          fmt::format("{} {}: expected a whole number from {} to {}", flag, text, least, most)};
}

std::optional<std::chrono::milliseconds> seconds_of(std::string_view text, double least, double most) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds >= least && seconds <= most))
    return std::nullopt;
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

Status take_wait_limit(const RawOptions& raw, const Environment& environment, ElasticOptions& options) {
  std::string flag = "--elastic-timeout", text = raw.elastic_timeout;
  for (const char* const name : {"DABKE_ELASTIC_TIMEOUT", "HOROVOD_ELASTIC_TIMEOUT"}) {
    if (!text.empty()) break;
    flag = name;
    text = environment(name).value_or("");
  }
  if (text.empty()) return {};
  const auto limit = seconds_of(text, 0, kMostSeconds);
  if (!limit)
    return {Code::invalid_argument,
            fmt::format("{} {}: expected a number of seconds from 0 to {:g}", flag, text, kMostSeconds)};
  options.wait_limit = *limit;
  return {};
}

Status take_cooldown(const std::string& text, ElasticOptions& options) {
  if (text.empty()) return {};
  const auto space = std::min(text.find_first_of(" ,"), text.size());
  const auto least = seconds_of(text.substr(0, space), 0, kMostCooldown);
  const auto most = seconds_of(text.substr(std::min(space + 1, text.size())), 0, kMostCooldown);
  if (!least || !most || *least > *most)
    return {
        Code::invalid_argument,
        fmt::format("--blacklist-cooldown-range {}: expected two numbers of seconds, MIN and MAX, from 0 to "
                    "{:g}, MIN not above MAX",
                    text, kMostCooldown)};
  options.least_cooldown = *least;
  options.most_cooldown = *most;
  return {};
}

bool is_asked_for(const RawOptions& raw) {
  for (const std::string* const each :
       {&raw.min_np, &raw.max_np, &raw.discovery_script, &raw.reset_limit, &raw.elastic_timeout,
        &raw.cooldown_range, &raw.spares, &raw.slots_per_host}) {
    if (!each->empty()) return true;
  }
  return false;
}

}  // namespace

Result<std::optional<ElasticOptions>> take_elastic_options(const RawOptions& raw,
                                                           const Environment& environment) {
  if (!is_asked_for(raw)) return std::optional<ElasticOptions>();
  ElasticOptions options;
  DABKE_RETURN_IF_ERROR(take_number("--min-np", raw.min_np, 1, kMostRanks, options.min_np));
  DABKE_RETURN_IF_ERROR(take_number("--max-np", raw.max_np, 1, kMostRanks, options.max_np));
  DABKE_RETURN_IF_ERROR(take_number("--spares", raw.spares, 0, kMostRanks, options.spares));
  DABKE_RETURN_IF_ERROR(
      take_number("--slots-per-host", raw.slots_per_host, 1, kMostSlots, options.slots_per_host));
  if (!raw.reset_limit.empty()) {
    options.reset_limit.emplace(0);
    DABKE_RETURN_IF_ERROR(take_number("--reset-limit", raw.reset_limit, 0, 1'000'000, *options.reset_limit));
  }
  DABKE_RETURN_IF_ERROR(take_wait_limit(raw, environment, options));
  DABKE_RETURN_IF_ERROR(take_cooldown(raw.cooldown_range, options));
  options.discovery_script = raw.discovery_script;
  return std::optional(options);
}

Status settle_elastic_options(ElasticOptions& options, int num_proc, const std::string& hosts) {
  const auto refuse = [](const std::string& why) { return Status(Code::invalid_argument, why); };
  if (!options.discovery_script.empty() && !hosts.empty())
    return refuse(fmt::format("--host-discovery-script {} and {} both name the hosts: give only one",
                              options.discovery_script, hosts));
  if (options.discovery_script.empty() && options.slots_per_host != 0)
    return refuse(
        fmt::format("--slots-per-host {}: only valid with --host-discovery-script; with fixed hosts, "
                    "write -H name:slots",
                    options.slots_per_host));
  const auto check_order = [&](std::string_view low, int a, std::string_view high, int b) {
    return a == 0 || b == 0 || a <= b ? Status()
                                      : refuse(fmt::format("{} {} is above {} {}", low, a, high, b));
  };
  DABKE_RETURN_IF_ERROR(check_order("--min-np", options.min_np, "-np", num_proc));
  DABKE_RETURN_IF_ERROR(check_order("--min-np", options.min_np, "--max-np", options.max_np));
  DABKE_RETURN_IF_ERROR(check_order("-np", num_proc, "--max-np", options.max_np));
  if (options.min_np == 0) options.min_np = std::max(num_proc, 1);
  return {};
}

}  // namespace dabke::launcher

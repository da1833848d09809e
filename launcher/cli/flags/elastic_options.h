// The flags of elastic jobs.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"

namespace dabke::launcher {

struct RawOptions;

struct ElasticOptions {
  int min_np = 0;  // 0: not given, as for the next two
  int max_np = 0;
  int slots_per_host = 0;
  std::string discovery_script;  // empty: the hosts are fixed
  std::optional<int> reset_limit;
  int spares = 0;
  std::chrono::milliseconds wait_limit = std::chrono::minutes(10);
  std::chrono::milliseconds least_cooldown = std::chrono::seconds(10),
                            most_cooldown = std::chrono::minutes(10);
};

/// The values of the flags, or nothing if none of them is given. The error names flag and value.
Result<std::optional<ElasticOptions>> take_elastic_options(const RawOptions& raw,
                                                           const Environment& environment);
/// Checks the values against each other and against `hosts`, the flag that names fixed hosts (empty: none).
/// Fills in --min-np. `num_proc` is the value of -np; 0: not given.
Status settle_elastic_options(ElasticOptions& options, int num_proc, const std::string& hosts);

}  // namespace dabke::launcher

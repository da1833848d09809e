// The targets of Dabke: ratios between competitors of one run, if possible.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benchmarks/perf/report/results.h"

namespace dabke::perf {

struct Target {
  std::string name;
  double value = 0;  // measured
  double limit = 0;
  bool at_least = true;  // otherwise at most
  bool is_met() const { return at_least ? value >= limit : value <= limit; }
  /// ">= 1.50 met"
  std::string to_string() const;
};

/// Returns nothing for rows without a target.
std::optional<Target> target_of(const Row& row, const std::vector<Row>& rows);

}  // namespace dabke::perf

// The two short forms in which Slurm writes lists. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace dabke::launcher {

/// Expands "n[01-03,7]" to n01, n02, n03, n7. A name may have several brackets: "rack[1-2]n[0-1]" gives four
/// names. Numbers keep the width of the range's first number. `source` (a variable's name) goes into the
/// error. At most kMostRanks names.
Result<std::vector<std::string>> parse_hostlist(std::string_view text, std::string_view source);

/// Expands "2(x3),1" to 2, 2, 2, 1, the numbers for each host of such a list. At most kMostRanks numbers.
Result<std::vector<int>> parse_repeated_counts(std::string_view text, std::string_view source);

}  // namespace dabke::launcher

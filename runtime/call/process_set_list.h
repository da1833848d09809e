// Lists of ranks and of process sets, as users write and read them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/world.h"

namespace dabke {

/// Ranks with commas, sets with semicolons: "0,1;2,3". Ascending; the error names what is wrong. A set is
/// there once, and is not the world, as if they were added one by one.
Result<std::vector<std::vector<Rank>>> parse_process_sets(std::string_view text, int world_size);
/// The text that parse_process_sets() takes, in the one way to write these sets.
std::string process_sets_to_string(const std::vector<std::vector<Rank>>& sets);

/// "0-3, 7" for ascending ranks.
std::string ranks_to_string(const std::vector<Rank>& ranks);

}  // namespace dabke

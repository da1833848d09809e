// Lists of ranks and of process sets, as users write and read them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/world.h"

namespace dabke {

/// A process set that a job, or an epoch of it, begins with.
struct FirstSet {
  ProcessSetId id = kWorldSet;
  std::vector<Rank> ranks;        // ascending
  bool is_among_members = false;  // its members hold it, not the whole job
  friend bool operator==(const FirstSet&, const FirstSet&) = default;
};

/// The process sets with which an epoch of an elastic job begins, besides the world.
struct FirstSets {
  std::vector<FirstSet> sets;
  std::map<ProcessSetId, std::string> lost;  // sets of earlier epochs that do not go on: the reason in words
  ProcessSetId next_id = 1;                  // never used before in the job
  friend bool operator==(const FirstSets&, const FirstSets&) = default;
};

/// Parses ranks with commas and sets with semicolons: "0,1;2,3". Sorts each set. An error names what is
/// wrong. As if the sets were added one by one, no set may be there twice, or be the world.
Result<std::vector<std::vector<Rank>>> parse_process_sets(std::string_view text, int world_size);
/// Returns the text for parse_process_sets(), in the one way to write these sets.
std::string process_sets_to_string(const std::vector<std::vector<Rank>>& sets);

/// "0-3, 7" for ascending ranks.
std::string ranks_to_string(const std::vector<Rank>& ranks);

}  // namespace dabke

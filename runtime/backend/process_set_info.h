#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/world.h"

namespace dabke {

/// A process set as a backend sees it.
struct ProcessSetInfo {
  ProcessSetId id = kWorldSet;
  std::vector<Rank> ranks;  // world ranks in set order
  int rank = 0;             // this process's index in `ranks`
  int size() const { return static_cast<int>(ranks.size()); }
};

// The parts of a set of several hosts: the ranks of one host, and ranks of which each host has one. A batch
// may be moved in these parts. The ids of parts are negative, so they differ from every id of a user's set.
constexpr ProcessSetId inside_hosts(ProcessSetId set) { return -2 * set - 2; }
constexpr ProcessSetId between_hosts(ProcessSetId set) { return -2 * set - 1; }
/// The set of which `set` is a part; a whole set is its own.
constexpr ProcessSetId whole_of(ProcessSetId set) { return set < 0 ? (-set - 1) / 2 : set; }
/// "process set 3", "process set 3 inside a host", "process set 3 between hosts"
std::string describe_set(ProcessSetId set);

/// FNV-1a, the same on all ranks. Not for secrets: it only keeps apart the keys of sets that have different
/// ranks.
std::uint64_t hash_of(const std::vector<Rank>& ranks);

}  // namespace dabke

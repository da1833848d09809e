#pragma once

#include <cstdint>
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

/// FNV-1a, the same on all ranks. Not for secrets: it only keeps keys of sets with other ranks apart.
std::uint64_t hash_of(const std::vector<Rank>& ranks);

}  // namespace dabke

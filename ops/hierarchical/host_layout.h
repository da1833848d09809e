// The ranks of a process set that share memory, and what each of them carries between the hosts.
//
// A host here is a group of ranks that share memory, found by trying; containers on one machine may be
// several.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/backend/backend.h"

namespace dabke {

/// The lowest rank that each rank of the world shares memory with, itself included; `own` is this rank's.
/// Collective over the world: rank 0 gathers them in the store. Code timeout names the rank that did not
/// come.
Result<std::vector<Rank>> gather_leaders(const BackendContext& context, Rank own);

/// A process set as its hosts see it. The same on all ranks, but for what is `own`.
struct HostLayout {
  std::vector<std::vector<int>> hosts;  // places in the set, ascending; hosts by their first place
  std::size_t own_host = 0;
  std::size_t own_index = 0;   // this rank's in its host
  std::size_t least_size = 0;  // the smallest host's
  std::size_t most_size = 0;
  /// All hosts have equally many ranks, whose places follow one another.
  bool is_regular = false;

  /// The host that has the place, and its index there.
  std::pair<std::size_t, std::size_t> find(int place) const;
};

HostLayout layout_of(const ProcessSetInfo& set, std::span<const Rank> leaders);

/// The ranks of one host, or one of each: ids of such sets are negative, so they meet no other's.
ProcessSetInfo ranks_inside(const ProcessSetInfo& set, const HostLayout& layout);
/// Those with this rank's index, by host; hosts that have fewer ranks are left out.
ProcessSetInfo ranks_between(const ProcessSetInfo& set, const HostLayout& layout);

}  // namespace dabke

// The ranks of a process set by their hosts, and which of them meet between hosts.
//
// A host is a group of ranks that has a leader, its lowest rank of the world. Who makes the layout says which groups those
// are: ranks that share memory, found by trying, or ranks that say the same name.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/backend/process_set_info.h"

namespace dabke {

/// Each rank's leader, where `hosts` has the name of each rank's host.
std::vector<Rank> leaders_by_name(std::span<const std::string> hosts);

/// Whether the set's ranks are not all on one host.
bool spans_hosts(const ProcessSetInfo& set, std::span<const std::string> hosts);

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

/// Those of this rank's host.
ProcessSetInfo ranks_inside(const ProcessSetInfo& set, const HostLayout& layout);
/// Those with this rank's index, by host; hosts that have fewer ranks are left out.
ProcessSetInfo ranks_between(const ProcessSetInfo& set, const HostLayout& layout);

/// A process set of hosts, and its parts.
struct HostedSet {
  HostLayout layout;
  ProcessSetInfo inside;
  ProcessSetInfo between;
};
HostedSet hosted(const ProcessSetInfo& set, std::span<const Rank> leaders);

}  // namespace dabke

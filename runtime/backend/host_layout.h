// The ranks of a process set by their hosts, and which of these ranks communicate between hosts.
//
// A host is a group of ranks with a leader, which is the lowest world rank of the group. The caller that
// makes the layout decides on the groups: ranks that share memory, found by trying, or ranks that report the
// same host name.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/backend/process_set_info.h"

namespace dabke {

/// Returns the leader of each rank. `hosts` has the name of each rank's host.
std::vector<Rank> leaders_by_name(std::span<const std::string> hosts);

/// True if the set's ranks are on more than one host.
bool spans_hosts(const ProcessSetInfo& set, std::span<const std::string> hosts);

/// A process set as its hosts see it. Equal on all ranks, except for the `own_` members.
struct HostLayout {
  std::vector<std::vector<int>> hosts;  // indices in the set, ascending; hosts by their first index
  std::size_t own_host = 0;
  std::size_t own_index = 0;   // this rank's index in its host
  std::size_t least_size = 0;  // ranks of the smallest host
  std::size_t most_size = 0;
  /// All hosts have equally many ranks, whose indices in the set are consecutive.
  bool is_regular = false;

  /// Returns the host of the index, and the position in that host.
  std::pair<std::size_t, std::size_t> find(int place) const;
};

HostLayout layout_of(const ProcessSetInfo& set, std::span<const Rank> leaders);

/// Returns the ranks of this rank's host.
ProcessSetInfo ranks_inside(const ProcessSetInfo& set, const HostLayout& layout);
/// Returns the ranks that have this rank's index in their host, by host. Hosts with fewer ranks are left out.
ProcessSetInfo ranks_between(const ProcessSetInfo& set, const HostLayout& layout);

/// A process set of several hosts, and its parts.
struct HostedSet {
  HostLayout layout;
  ProcessSetInfo inside;
  ProcessSetInfo between;
};
HostedSet hosted(const ProcessSetInfo& set, std::span<const Rank> leaders);

}  // namespace dabke

// The tree along which readiness travels up and orders travel down.
//
// The ranks of a host report to its lowest rank, the host's leader; beyond 32 of them, through each other.
// The leaders form a tree of the given radix in the order of their ranks. Rank 0 is the root. Every rank
// computes the same tree from the list of hosts.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/world.h"

namespace dabke::negotiation {

class Topology {
 public:
  static constexpr int kLocalRadix = 32;

  /// `hosts` are by rank; empty if all ranks are on one host. With `radix` 0 every rank reports to rank 0.
  Topology(int size, std::vector<std::string> hosts, int radix);

  int size() const { return static_cast<int>(parents_.size()); }
  /// -1 for the root.
  Rank parent(Rank rank) const { return parents_[at(rank)]; }
  /// Ascending.
  const std::vector<Rank>& children(Rank rank) const { return children_[at(rank)]; }
  bool is_below(Rank rank, Rank above) const;
  /// Returns `above` itself and all ranks below it, ascending.
  std::vector<Rank> subtree(Rank above) const;
  /// The number of ranks in subtree().
  int subtree_size(Rank above) const { return sizes_[at(above)]; }
  /// Returns the ranks with which `rank` exchanges messages.
  std::vector<Rank> neighbours(Rank rank) const;
  /// The longest way from the root, in hops.
  int depth() const;

  /// "rank 3 on host-b".
  std::string name(Rank rank) const;
  /// The same for one rank; "ranks 0-3, 7" for several, which are ascending.
  std::string names(const std::vector<Rank>& ranks) const;
  const std::shared_ptr<const std::vector<Rank>>& everybody() const { return everybody_; }

 private:
  static std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }

  std::vector<std::string> hosts_;
  std::vector<Rank> parents_;
  std::vector<std::vector<Rank>> children_;
  std::vector<int> sizes_;
  std::shared_ptr<const std::vector<Rank>> everybody_;
};

}  // namespace dabke::negotiation

// Communication between the ranks of a measurement, over a shared page that belongs to no competitor.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/threads/fork_guard.h"
#include "runtime/base/world.h"
#include "runtime/links/shm/segment.h"
#include "runtime/store/store.h"

namespace dabke::perf {

/// Every function that is not const is collective. If a rank ends, its launcher ends the others.
class Team {
 public:
  /// An error reports that the ranks are not on one host.
  static Result<std::unique_ptr<Team>> open(const World& world, store::Store& store);

  int rank() const { return rank_; }
  int size() const { return size_; }

  void barrier();
  /// The values of all ranks, by rank.
  std::vector<double> gather(double mine);
  double max(double mine);
  double min(double mine);
  double sum(double mine);
  /// The time of a cache line from rank 0 to rank 1, in ns: half of a round trip, the
  /// best of many. 0 if they share a core.
  double line_ns();
  /// The number of cores that all ranks together may run on.
  int cores();

 private:
  struct Page;
  Team(int rank, int size) : rank_(rank), size_(size) {}

  const int rank_;
  const int size_;
  ForkGuard fork_guard_;
  shm::Segment segment_;
  Page* page_ = nullptr;
};

}  // namespace dabke::perf

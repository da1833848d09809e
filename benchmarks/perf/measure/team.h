// The ranks of a measurement among themselves: a page that all of them share, which belongs to none of the
// competitors.
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

/// Every function that is not const is collective. Should a rank end, its launcher ends the others.
class Team {
 public:
  /// Errors say that the ranks are not on one host.
  static Result<std::unique_ptr<Team>> open(const World& world, store::Store& store);

  int rank() const { return rank_; }
  int size() const { return size_; }

  void barrier();
  /// What each rank said, by rank.
  std::vector<double> gather(double mine);
  double max(double mine);
  double min(double mine);
  double sum(double mine);
  /// How long a cache line takes from rank 0 to rank 1, in ns: half of a round trip, the best of many. 0 where they share a core.
  double line_ns();
  /// That all ranks together may run on.
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

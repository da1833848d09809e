// An account of a rank's communication time: by collective and backend, and by the rank
// that the others waited for.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/kinds.h"
#include "runtime/base/world.h"

namespace dabke::reports {

/// One batch that has run.
struct BatchReport {
  CollectiveKind kind = CollectiveKind::allreduce;
  std::string_view backend;  // empty if no backend could run it
  std::size_t tensors = 0;
  std::size_t size_bytes = 0;  // this rank's input
  double seconds = 0;
};

/// Any thread may use it.
class Profile {
 public:
  struct Row {
    CollectiveKind kind = CollectiveKind::allreduce;
    std::string backend;
    std::uint64_t batches = 0;
    std::uint64_t tensors = 0;
    std::uint64_t bytes = 0;
    double seconds = 0;
  };
  struct Wait {  // from submit to order
    std::uint64_t tensors = 0;
    double seconds = 0;
    double fastest = 0;  // usually this rank was the last then, so this is the time of the negotiation alone
    void add(const Wait& more);
  };
  struct Late {  // times at which a rank kept the others waiting
    std::uint64_t times = 0;
    double seconds = 0;
  };

  void ran(const BatchReport& batch);
  void waited(CollectiveKind kind, const Wait& wait);
  void late(Rank rank, CollectiveKind kind, double seconds);
  void cache(std::uint64_t hits, std::uint64_t misses);

  std::vector<Row> rows() const;
  /// The shortest of all waits; 0 if there was none.
  double fastest_wait() const;
  /// The lateness of each rank that this rank has seen. Rank 0 sees all of it.
  std::map<Rank, Late> lateness() const;
  std::pair<std::uint64_t, std::uint64_t> cache_hits_and_misses() const;

  /// The table that DABKE_PROFILE prints: one row for each collective and backend, then the late ranks.
  std::string to_text(int size, double wall_seconds) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<CollectiveKind, std::string>, Row> rows_;
  std::map<CollectiveKind, Wait> waits_;
  std::map<std::pair<CollectiveKind, Rank>, Late> late_;
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
};

}  // namespace dabke::reports

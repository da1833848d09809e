// How far the children of this rank are in the order stream. Reports and orders cross on their way. A report
// that was sent before its sender had an order may mean what that order has ended.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/negotiation/tables/collector.h"
#include "runtime/negotiation/tables/response_cache.h"

namespace dabke::negotiation {

class ChildProgress {
 public:
  ChildProgress(const Collector& collector, ResponseCache& cache)
      : collector_(collector), cache_(cache), seen_(static_cast<std::size_t>(collector.reporters())) {}

  /// True if children may have reported something of this set that an order ends before they have that order.
  bool has_reporters_below(ProcessSetId set) const;
  /// Reports of this name that were sent before the order of number `until` are void.
  void void_reports(ProcessSetId set, const std::string& key, std::uint64_t until);
  /// True if a report is void whose sender had `seen` this order last.
  bool is_void(ProcessSetId set, const std::string& key, std::uint64_t seen) const {
    return !voids_.empty() && find_void(set, key, seen);
  }
  /// Notes that the child has seen the orders up to this number. Entries that no child needs any more are
  /// dropped.
  void note_seen(int reporter, std::uint64_t seen, std::uint64_t last_order) {
    const std::uint64_t before = std::exchange(seen_[static_cast<std::size_t>(reporter)], seen);
    if (cache_.count_evicted() != 0 || !voids_.empty()) forget(reporter, before, seen, last_order);
  }
  /// The number of names whose void reports are remembered.
  std::size_t count_void() const { return voids_.size(); }

 private:
  struct Void {
    ProcessSetId set;
    std::string key;
    std::uint64_t until;
  };
  bool find_void(ProcessSetId set, const std::string& key, std::uint64_t seen) const;
  void forget(int reporter, std::uint64_t before, std::uint64_t seen, std::uint64_t last_order);
  std::uint64_t seen_by_all(ProcessSetId set, std::uint64_t last_order) const;

  const Collector& collector_;
  ResponseCache& cache_;
  std::vector<std::uint64_t> seen_;  // by reporter: the last order that each child has seen
  std::vector<Void> voids_;
};

}  // namespace dabke::negotiation

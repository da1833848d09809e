// What the children of this rank know of the order stream. Reports cross orders on their way: one that was
// sent before its sender knew of an order may mean what the order has ended.
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

  /// Whether children may have reported something of this set that an order ends before they know of it.
  bool has_reporters_below(ProcessSetId set) const;
  /// Reports of this name from before the order of this number mean nothing.
  void void_reports(ProcessSetId set, const std::string& key, std::uint64_t until);
  /// Whether that is so of a report whose sender had `seen` this order last.
  bool is_void(ProcessSetId set, const std::string& key, std::uint64_t seen) const {
    return !voids_.empty() && find_void(set, key, seen);
  }
  /// The child knows the orders up to this number; what none needs any more is forgotten.
  void note_seen(int reporter, std::uint64_t seen, std::uint64_t last_order) {
    const std::uint64_t before = std::exchange(seen_[static_cast<std::size_t>(reporter)], seen);
    if (cache_.count_evicted() != 0 || !voids_.empty()) forget(reporter, before, seen, last_order);
  }
  /// How many names are remembered whose reports are void.
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
  std::vector<std::uint64_t> seen_;  // by reporter: the last order that each child knows
  std::vector<Void> voids_;
};

}  // namespace dabke::negotiation

// The root's half of the negotiation: collects what every rank has ready, and calls one order.
//
// Pure: no threads, sockets or clocks. Time comes in as an argument.
//   1. report() notes that a rank has a request ready. The first rank's request stands for all that equal it;
//   a request
//      that differs is kept beside it with its ranks.
//   2. When every rank of the set has reported or joined, the request moves to the ready list: to run, or as
//   an error
//      that names the difference and the ranks.
//   3. take_orders() numbers what is ready. While the data plane is busy it holds back, so that what becomes
//   ready
//      meanwhile travels in the same batch (the adaptive linger).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/negotiation/process_sets.h"
#include "runtime/negotiation/wire.h"

namespace dabke {

class Sequencer {
 public:
  struct Options {
    int size = 1;
    std::vector<std::string> hosts;  // by rank; may be empty
    Duration linger_limit{};         // longest deliberate wait; zero: as long as the data plane is busy
    Duration stall_check{};          // zero: off
    Duration stall_shutdown{};       // zero: never
  };
  /// A rank reported a request; for the timeline.
  struct Readiness {
    std::string name;
    CollectiveKind kind;
    int set_rank = 0;
    bool first = false;  // nobody had reported it before
    bool last = false;   // now everybody has
  };

  explicit Sequencer(Options options);

  void report(Rank rank, Request request, TimePoint now);
  /// The rank submits nothing more: what still waits for it can never be ordered.
  void goodbye(Rank rank);
  /// Whether the root's own data plane has enough to do, so that waiting for more tensors costs nothing.
  void set_data_plane_busy(bool busy) { busy_ = busy; }
  bool holds_back() const { return busy_ && !ready_.empty(); }
  /// Looks for stalls and for one name pending in two process sets.
  void tick(TimePoint now);
  /// When tick() or take_orders() has something to do at the latest.
  TimePoint next_tick() const;

  std::vector<Order> take_orders(TimePoint now);
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }
  std::vector<Readiness> take_readiness() { return std::exchange(readiness_, {}); }
  /// The job cannot go on: a defect of a peer, or the stall shutdown time.
  const std::optional<FailMessage>& failure() const { return failure_; }

  bool has_left(Rank rank) const { return left_[static_cast<std::size_t>(rank)]; }

 private:
  struct Variant {
    Request request;
    std::vector<Rank> ranks;
  };
  struct Pending {
    std::vector<Variant> variants;  // the first rank's request first; more than one: a mismatch
    std::vector<bool> reported;     // by index in the set
    int count = 0;
    TimePoint since{};
    TimePoint warned{};
    std::optional<TimePoint> suspect_since;  // this name waits in another set too, each for the other's ranks
  };
  struct SetState {
    std::map<std::string, Pending> pending;
    std::vector<bool> joined;  // by index in the set; empty: nobody
    int joined_count = 0;
  };

  void join(Rank rank, const Request& request);
  bool is_complete(const SetState& set, const Pending& pending) const;
  void finish(ProcessSetId id, const std::string& name);
  void finish_all_complete(ProcessSetId id);
  Order decide(ProcessSetId id, Pending pending);
  Order mismatch(const Pending& pending) const;
  Order error_order(const Request& request, Code code, std::string text) const;
  std::vector<Rank> missing_ranks(ProcessSetId id, const Pending& pending) const;
  void suspect_process_sets(ProcessSetId id, const std::string& name, TimePoint now);
  bool wait_for_each_other(ProcessSetId a, const Pending& x, ProcessSetId b, const Pending& y) const;
  void fail_process_set_mismatch(const std::string& name, ProcessSetId a, ProcessSetId b);
  void check_stall(ProcessSetId id, const std::string& name, Pending& pending, TimePoint now);
  std::string stall_text(ProcessSetId id, const std::string& name, const Pending& pending,
                         TimePoint now) const;
  std::string submitted_instead(Rank rank) const;
  std::string who(const std::vector<Rank>& ranks) const;
  bool holds_left_rank(ProcessSetId id) const;

  Options options_;
  ProcessSets sets_;
  std::map<ProcessSetId, SetState> states_;
  std::vector<bool> left_;
  std::vector<Order> ready_;
  bool must_flush_ = false;
  bool busy_ = false;
  TimePoint ready_since_{};
  TimePoint next_check_ = kNever;
  std::uint64_t next_number_ = 1;
  std::optional<FailMessage> failure_;
  std::vector<std::string> warnings_;
  std::vector<Readiness> readiness_;
};

}  // namespace dabke

// One rank's half of the negotiation that obeys: orders pass through it to the subtrees that they concern, and
// it does here what they say.
//
// Every rank runs its projection of the one sequence. A run takes the oldest request of the name out of its
// queue, into an ExecuteAction (or completes it at once, where no data moves), and the next of its name is
// announced.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/negotiation/stalls/group_inspector.h"
#include "runtime/negotiation/stalls/stall_inspector.h"
#include "runtime/negotiation/state/endings.h"
#include "runtime/negotiation/state/negotiation_state.h"
#include "runtime/negotiation/upward_reporter.h"

namespace dabke {

class OrderFollower {
 public:
  OrderFollower(NegotiationState& state, Outbox& outbox, Endings& endings, UpwardReporter& reporter,
                StallInspector& stalls, GroupInspector& groups)
      : state_(state),
        outbox_(outbox),
        endings_(endings),
        reporter_(reporter),
        stalls_(stalls),
        groups_(groups) {}

  /// `bytes`: the message as it came; empty on the root, which has made it.
  void follow(OrdersMessage message, std::span<const std::byte> bytes, TimePoint now);

 private:
  void pass_down(const OrdersMessage& message, std::span<const std::byte> bytes);
  bool concerns(const Order& order, int reporter) const;
  void apply(Order& order, ExecuteAction& execute, TimePoint now);
  void apply_run(Order& order, ExecuteAction& execute, TimePoint now);
  TensorEntry* entry_of(const Order& order);
  void execute_until_here(ExecuteAction& execute);
  void run(Order& order, TensorEntry& entry, ExecuteAction& execute, TimePoint now);
  void complete(Order& order, TensorEntry& entry, TimePoint now);
  void complete_join(const Order& order);
  void apply_error(const Order& order, TimePoint now);
  void apply_evict(const Order& order, TimePoint now);
  void apply_learned(const Order& order, TimePoint now);
  void apply_release(const Order& order, TimePoint now);
  void apply_left(Rank rank, TimePoint now);
  void note_departure(Rank rank, TimePoint now);
  Submitted take_front(TensorEntry& entry, TimePoint now);

  NegotiationState& state_;
  Outbox& outbox_;
  Endings& endings_;
  UpwardReporter& reporter_;
  StallInspector& stalls_;
  GroupInspector& groups_;
};

}  // namespace dabke

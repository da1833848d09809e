// The half of one rank's negotiation that follows orders. Orders pass through this rank to the subtrees that
// they concern, and this rank carries them out.
//
// Every rank runs its projection of the one sequence. A run moves the oldest request of its name from the
// queue into an ExecuteAction. If no data moves, it completes that request at once. Then the next request of
// the name is announced.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/negotiation/sender_search.h"
#include "runtime/negotiation/stalls/group_inspector.h"
#include "runtime/negotiation/stalls/stall_inspector.h"
#include "runtime/negotiation/state/endings.h"
#include "runtime/negotiation/state/negotiation_state.h"
#include "runtime/negotiation/upward_reporter.h"

namespace dabke::negotiation {

class OrderFollower {
 public:
  OrderFollower(NegotiationState& state, Outbox& outbox, Endings& endings, UpwardReporter& reporter,
                StallInspector& stalls, GroupInspector& groups, SenderSearch& senders)
      : state_(state),
        outbox_(outbox),
        endings_(endings),
        reporter_(reporter),
        stalls_(stalls),
        groups_(groups),
        senders_(senders) {}

  /// `bytes` is the message as it came; empty on the root, which has made the message.
  void follow(wire::OrdersMessage message, std::span<const std::byte> bytes, TimePoint now);

 private:
  void pass_down(const wire::OrdersMessage& message, std::span<const std::byte> bytes);
  bool concerns(const wire::Order& order, int reporter) const;
  void apply(wire::Order& order, ExecuteAction& execute, TimePoint now);
  void apply_run(wire::Order& order, ExecuteAction& execute, TimePoint now);
  TensorEntry* entry_of(const wire::Order& order);
  void execute_until_here(ExecuteAction& execute);
  void run(wire::Order& order, TensorEntry& entry, ExecuteAction& execute, TimePoint now);
  void complete(wire::Order& order, TensorEntry& entry, TimePoint now);
  void complete_join(const wire::Order& order);
  void apply_error(const wire::Order& order, TimePoint now);
  void apply_evict(const wire::Order& order, TimePoint now);
  void apply_learned(const wire::Order& order, TimePoint now);
  void apply_release(const wire::Order& order, TimePoint now);
  void apply_left(Rank rank, TimePoint now);
  void note_departure(Rank rank, TimePoint now);
  Submitted take_front(TensorEntry& entry, TimePoint now);

  NegotiationState& state_;
  Outbox& outbox_;
  Endings& endings_;
  UpwardReporter& reporter_;
  StallInspector& stalls_;
  GroupInspector& groups_;
  SenderSearch& senders_;
};

}  // namespace dabke::negotiation

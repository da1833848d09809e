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

namespace dabke::negotiation {

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
};

}  // namespace dabke::negotiation

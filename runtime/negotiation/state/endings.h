// The ends of requests, of process sets and of the job.
//
// A rank that learns of a failure notifies all its neighbours. The first cause ends everything: each pending
// token completes exactly once, and later ones at once.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/negotiation/state/negotiation_state.h"
#include "runtime/negotiation/state/outbox.h"

namespace dabke::negotiation {

class Endings {
 public:
  Endings(NegotiationState& state, Outbox& outbox) : state_(state), outbox_(outbox) {}

  void complete(Token token, Status status, std::int64_t value = 0, std::uint64_t changes = 0);
  /// Ends the job on every rank with this cause, unless it is over.
  void abort(const Status& cause);
  /// Like abort(), but also ends the last runs if the job is over. `except` has sent the cause, and is not
  /// notified; -1: no rank.
  void fail(const Status& cause, Rank except);
  /// Returns why something cannot run. Its argument names it, as in "allreduce 'x'".
  using Why = std::function<Status(const std::string& what)>;
  /// Fails all requests that wait in the set on this rank.
  void fail_set(ProcessSetId set, const Why& why);
  /// Fails all messages within a set that has been removed. Their own sets, of two ranks each, stay.
  void fail_messages_within(ProcessSetId set, const Why& why);
  /// Fails incomplete groups of one set, or of all sets if `set` is empty. The members that are still to come
  /// are not awaited.
  void fail_incomplete_groups(std::optional<ProcessSetId> set, const Status& cause);
  /// Fails a group that lacks some of its members here, with an error that all ranks have agreed on.
  void fail_incomplete_group(ProcessSetId set, const std::string& key, const Status& why);
  /// Ends the negotiation on this rank. `over` is ok after a clean goodbye.
  void end(const Status& cause, const Status& over, TimePoint now = {});

 private:
  void fail_waiting(TensorEntry& entry, const Why& why);

  NegotiationState& state_;
  Outbox& outbox_;
};

}  // namespace dabke::negotiation

// How requests, process sets and the job end.
//
// Whoever learns of a failure tells all its neighbours. The first cause ends everything: each pending token
// completes exactly once, later ones at once.
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

  void complete(Token token, Status status, std::int64_t value = 0);
  /// Ends the job on every rank with this cause, unless it is over.
  void abort(const Status& cause);
  /// The same, and when it was over, ends the last runs. `except` has said so, and is not told; -1: nobody.
  void fail(const Status& cause, Rank except);
  /// Why something cannot run, which is named as in "allreduce 'x'".
  using Why = std::function<Status(const std::string& what)>;
  /// All that waits there on this rank.
  void fail_set(ProcessSetId set, const Why& why);
  /// Incomplete groups of one set, or all where `set` is nothing. Nobody waits for the members that are still
  /// to come.
  void fail_incomplete_groups(std::optional<ProcessSetId> set, const Status& cause);
  /// An error that all ranks have agreed on finds this group without some of its members.
  void fail_incomplete_group(ProcessSetId set, const std::string& key, const Status& why);
  /// Nothing more is negotiated on this rank. `over`: ok after a clean goodbye.
  void end(const Status& cause, const Status& over, TimePoint now = {});

 private:
  NegotiationState& state_;
  Outbox& outbox_;
};

}  // namespace dabke::negotiation

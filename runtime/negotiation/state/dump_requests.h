// Dumps of all ranks. A rank that wants them asks the root, which numbers them and notifies every rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/negotiation/state/negotiation_state.h"
#include "runtime/negotiation/state/outbox.h"

namespace dabke::negotiation {

class DumpRequests {
 public:
  enum class Why { as_warned, as_asked };

  DumpRequests(const NegotiationState& state, Outbox& outbox) : state_(state), outbox_(outbox) {}

  /// Asks every rank to write a dump, unless all have written one a moment ago.
  void ask(const std::string& reason, Why why, TimePoint now);
  /// The same after a warning of the root, unless another warning has caused it not long ago.
  void ask_after_warning(const std::string& text, TimePoint now);
  /// Makes this rank and all ranks below it write a dump.
  void obey(const wire::DumpMessage& message);
  /// Adds the actions for dumps that were requested since the last call. Only then is everything known that
  /// was submitted before.
  void add_actions() {
    if (!obeyed_.empty()) add_obeyed();
  }

 private:
  void add_obeyed();

  const NegotiationState& state_;
  Outbox& outbox_;
  std::uint64_t incidents_ = 0;  // on the root: dumps that it has asked for
  TimePoint next_{};
  TimePoint next_after_warning_{};
  std::vector<wire::DumpMessage> obeyed_;
};

}  // namespace dabke::negotiation

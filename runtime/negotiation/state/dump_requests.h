// Dumps of all ranks: whoever wants them asks the root, which numbers them and tells everybody.
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

  /// Every rank is to write a dump, unless all have a moment ago.
  void ask(const std::string& reason, Why why, TimePoint now);
  /// The same after a warning of the root's, unless another had it done not long ago.
  void ask_after_warning(const std::string& text, TimePoint now);
  /// This rank is to, and all below it.
  void obey(const wire::DumpMessage& message);
  /// Adds what was asked for since the last call: only then all that was submitted before is known.
  void add_actions() {
    if (!obeyed_.empty()) add_obeyed();
  }

 private:
  void add_obeyed();

  const NegotiationState& state_;
  Outbox& outbox_;
  std::uint64_t incidents_ = 0;  // the root's: dumps that it has asked for
  TimePoint next_{};
  TimePoint next_after_warning_{};
  std::vector<wire::DumpMessage> obeyed_;
};

}  // namespace dabke::negotiation

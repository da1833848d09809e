#include "runtime/negotiation/state/dump_requests.h"

#include <algorithm>

namespace dabke::negotiation {
namespace {

constexpr Duration kBetween = std::chrono::seconds(2);  // many ranks ask for the same reason
constexpr Duration kBetweenWarnings = std::chrono::seconds(30);

}  // namespace

void DumpRequests::ask(const std::string& reason, Why why, TimePoint now) {
  if (state_.over) return;
  const bool asked = why == Why::as_asked;
  if (!state_.is_root()) return outbox_.send(state_.parent(), wire::DumpMessage{0, asked, reason});
  if (now < next_) return;
  next_ = now + kBetween;
  obey({++incidents_, asked, reason});
}

void DumpRequests::ask_after_warning(const std::string& text, TimePoint now) {
  if (now < next_after_warning_) return;
  next_after_warning_ = now + std::max(state_.options.stall_check, kBetweenWarnings);
  ask(text, Why::as_warned, now);
}

void DumpRequests::obey(const wire::DumpMessage& message) {
  for (const Rank child : state_.children()) outbox_.send(child, message);
  obeyed_.push_back(message);
}

void DumpRequests::add_obeyed() {
  for (wire::DumpMessage& dump : std::exchange(obeyed_, {})) {
    outbox_.add(DumpAction{std::move(dump.reason), dump.incident, false, dump.asked, snapshot_of(state_)});
  }
}

}  // namespace dabke::negotiation

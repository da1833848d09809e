#include "runtime/negotiation/timeline_requests.h"

#include <utility>

namespace dabke {

void TimelineRequests::ask(TimelineChange change, std::uint64_t from, TimePoint now) {
  if (state_.over) return;
  if (!state_.is_root()) return outbox_.send(state_.parent(), TimelineMessage{from, std::move(change)});
  const auto is_it = [&](const TimelineChange& one) { return one == change; };
  if (ordered_.find(from, is_it) != ordered_.size()) return;
  ordered_.add(change);
  state_.sequencer->change_timeline(std::move(change), now);
}

}  // namespace dabke

#include "runtime/negotiation/timeline_requests.h"

#include <filesystem>
#include <utility>

namespace dabke::negotiation {
namespace {

std::string normal_form(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().string();
}

}  // namespace

void TimelineRequests::ask(wire::TimelineChange change, std::uint64_t from, TimePoint now) {
  if (state_.over) return;
  if (!state_.is_root()) return outbox_.send(state_.parent(), wire::TimelineMessage{from, std::move(change)});
  const auto is_it = [&](const wire::TimelineChange& one) { return one == change; };
  if (ordered_.find(from, is_it) != ordered_.size()) return;
  if (change.starts && !held_.empty() && held_.contains(normal_form(change.path))) {
    waiting_.push_back({std::move(change), from});
    return;
  }
  ordered_.add(change);
  state_.sequencer->change_timeline(std::move(change), now);
}

void TimelineRequests::hold(const std::string& path) { held_.insert(normal_form(path)); }

void TimelineRequests::release(const std::string& path, TimePoint now) {
  held_.erase(normal_form(path));
  for (Asked& asked : std::exchange(waiting_, {})) ask(std::move(asked.change), asked.from, now);
}

}  // namespace dabke::negotiation

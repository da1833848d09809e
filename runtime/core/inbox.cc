#include "runtime/core/inbox.h"

#include "runtime/base/threads/exceptions.h"

namespace dabke::core {

bool Inbox::put(Command command, std::size_t& waiting) {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  inbox_.push_back(std::move(command));
  waiting = inbox_.size();
  return true;
}

void Inbox::leave() {
  const std::lock_guard lock(mutex_);
  leaves_ = true;
}

bool Inbox::has_news() {
  const std::lock_guard lock(mutex_);
  return leaves_ || !inbox_.empty();
}

std::vector<Command>& Inbox::take() {
  const std::lock_guard lock(mutex_);
  taken_.swap(inbox_);
  leaves_then_ = std::exchange(leaves_, false);
  return taken_;
}

bool Inbox::done_with() {
  taken_.clear();  // keeps its memory for the next commands
  return std::exchange(leaves_then_, false);
}

void Inbox::close(const Status& cause) {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  closed_by_ = copy_of(cause);
}

Status Inbox::closed_by() {
  const std::lock_guard lock(mutex_);
  return copy_of(closed_by_);
}

}  // namespace dabke::core

#include "launcher/agent/carried_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace dabke::launcher {

Status CarriedInput::open() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("cannot make a pipe for rank 0's input", errno);
  rank_end_ = Fd(ends[0]);
  pipe_ = Fd(ends[1]);
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  return {};
}

void CarriedInput::take(std::string_view bytes) {
  if (bytes.empty()) pipe_ = Fd();
  waiting_ += bytes;
}

void CarriedInput::add_poll_entries(std::vector<pollfd>& entries) const {
  if (pipe_ && !waiting_.empty()) entries.push_back({pipe_.get(), POLLOUT, 0});
}

bool CarriedInput::handle(const pollfd& entry) {
  if (!pipe_ || entry.revents == 0 || entry.fd != pipe_.get()) return false;
  const ssize_t wrote = ::write(pipe_.get(), waiting_.data(), waiting_.size());
  if (wrote < 0 && errno != EAGAIN && errno != EINTR) pipe_ = Fd();  // the reader is gone
  if (wrote > 0) waiting_.erase(0, static_cast<std::size_t>(wrote));
  return pipe_ && waiting_.empty();
}

}  // namespace dabke::launcher

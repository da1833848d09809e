#include "launcher/job/input_carrier.h"

#include <unistd.h>

#include <cerrno>
#include <string>

namespace dabke::launcher {

void InputCarrier::add_poll_entries(std::vector<pollfd>& entries) const {
  if (input_ && is_taken_ && agent_.phase == AgentLink::Phase::running)
    entries.push_back({input_.get(), POLLIN, 0});
}

void InputCarrier::handle(const pollfd& entry) {
  if (!input_ || entry.revents == 0 || entry.fd != input_.get()) return;
  std::string bytes(std::size_t{64} << 10, '\0');
  const ssize_t got = ::read(input_.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) input_ = Fd();
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  is_taken_ = false;
  agent_.send(FrameKind::input, TextMessage{std::move(bytes)});
}

}  // namespace dabke::launcher

#include "runtime/links/handshake_io.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace dabke::links {
namespace {

/// After this many turns other connections are served, even if a client never stops sending.
constexpr int kMostTurns = 64;

/// True if there is more to do at once.
Result<bool> send_step(int fd, Handshake& handshake) {
  const auto out = handshake.outgoing();
  const ssize_t sent = ::send(fd, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) return system_error("the connection broke", errno);
  if (sent <= 0) return false;
  handshake.sent(static_cast<std::size_t>(sent));
  if (handshake.failed() && handshake.outgoing().empty()) ::shutdown(fd, SHUT_WR);
  return true;
}

/// The number of bytes that have come; 0 if none has.
Result<std::size_t> receive_step(int fd, const Handshake& handshake, std::span<std::byte> bytes) {
  const std::size_t most = handshake.failed() ? bytes.size() : std::min(handshake.wanted(), bytes.size());
  const ssize_t got = ::recv(fd, bytes.data(), most, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::size_t{0};
  if (got < 0) return system_error("the connection broke", errno);
  if (got == 0) return Status(Code::transport, "it closed the connection in the middle of the handshake");
  return static_cast<std::size_t>(got);
}

}  // namespace

HandshakeTurn converse_over(int fd, Handshake& handshake) {
  Status refused;
  for (int turns = 0; turns < kMostTurns; ++turns) {
    if (!handshake.outgoing().empty()) {
      const auto more = send_step(fd, handshake);
      if (!more.is_ok()) return {more.status(), refused};
      if (!*more) break;
      continue;
    }
    if (handshake.done()) break;
    std::array<std::byte, 512> bytes;
    const auto got = receive_step(fd, handshake, bytes);
    if (!got.is_ok()) return {got.status(), refused};
    if (*got == 0) break;
    if (handshake.failed()) continue;
    const Status status = handshake.receive(std::span(bytes).first(*got));
    if (status.is_ok()) continue;
    if (handshake.outgoing().empty()) return {status, refused};
    refused = status;
  }
  return {Status(), refused};
}

}  // namespace dabke::links

#include "launcher/agent/carried_connections.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "launcher/agent_protocol/protocol.h"

namespace dabke::launcher {
namespace {

/// The bytes that may wait for the other end before reading stops.
constexpr std::size_t kEnoughOfStore = std::size_t{1} << 20;

void send_store(FrameChannel& channel, FrameKind kind, const StoreMessage& message) {
  channel.send(static_cast<std::uint8_t>(kind), to_wire(message));
}

}  // namespace

void CarriedConnections::add(std::int64_t connection, Fd socket) {
  connections_[connection].socket = std::move(socket);
}

void CarriedConnections::take_bytes(std::int64_t connection, std::string_view bytes) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  found->second.waiting += bytes;
  write(connection, found->second);
}

void CarriedConnections::take_close(std::int64_t connection) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  found->second.is_closing = true;
  write(connection, found->second);
}

void CarriedConnections::add_poll_entries(std::vector<pollfd>& entries) const {
  for (const auto& [number, connection] : connections_) {
    const bool reads = !connection.is_closing && channel_.waiting() < kEnoughOfStore;
    const int events = (reads ? POLLIN : 0) | (connection.waiting.empty() ? 0 : POLLOUT);
    if (events != 0) entries.push_back({connection.socket.get(), static_cast<short>(events), 0});
  }
}

void CarriedConnections::handle(const pollfd& entry) {
  if (entry.revents == 0) return;
  const auto found = std::ranges::find_if(
      connections_, [&](const auto& each) { return each.second.socket.get() == entry.fd; });
  if (found == connections_.end()) return;
  const std::int64_t number = found->first;
  if ((entry.revents & POLLOUT) != 0) write(number, found->second);
  if ((entry.revents & ~POLLOUT) == 0 || !connections_.contains(number)) return;
  read(number, connections_.at(number));
}

void CarriedConnections::write(std::int64_t number, Connection& connection) {
  const ssize_t wrote =
      ::send(connection.socket.get(), connection.waiting.data(), connection.waiting.size(), MSG_NOSIGNAL);
  if (wrote > 0) connection.waiting.erase(0, static_cast<std::size_t>(wrote));
  const bool is_broken = wrote < 0 && errno != EAGAIN && errno != EINTR;
  if (is_broken && !connection.is_closing) send_store(channel_, FrameKind::store_close, {number, {}});
  if (is_broken || (connection.is_closing && connection.waiting.empty())) connections_.erase(number);
}

void CarriedConnections::read(std::int64_t number, Connection& connection) {
  std::array<char, 64 << 10> chunk;
  const ssize_t got = ::recv(connection.socket.get(), chunk.data(), chunk.size(), 0);
  if (got > 0)
    return send_store(channel_, FrameKind::store_bytes,
                      {number, std::string(chunk.data(), static_cast<std::size_t>(got))});
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (!connection.is_closing) send_store(channel_, FrameKind::store_close, {number, {}});
  connections_.erase(number);
}

}  // namespace dabke::launcher

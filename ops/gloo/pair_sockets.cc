#include "ops/gloo/pair_sockets.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "runtime/base/threads/owned.h"

namespace dabke::ops {
namespace {

bool same_address(const links::SocketAddress& a, const links::SocketAddress& b) {
  return a.length() == b.length() && a.length() != 0 && std::memcmp(a.get(), b.get(), a.length()) == 0;
}

/// Returns the pair that the socket belongs to, or null. A pair's socket is connected to the peer's listener,
/// listens for the peer, or was accepted from it. The socket of the other end, which may be in this process,
/// has the two addresses swapped.
const PairSockets::Pair* pair_of(int fd, const std::vector<PairSockets::Pair>& pairs) {
  const auto own = links::SocketAddress::local_of(fd);
  if (!own.is_ok() || own->length() == 0) return nullptr;
  const auto peer = links::SocketAddress::remote_of(fd);
  const auto found = std::ranges::find_if(pairs, [&](const PairSockets::Pair& pair) {
    return same_address(*own, pair.own) || (peer.is_ok() && same_address(*peer, pair.peer));
  });
  return found == pairs.end() ? nullptr : &*found;
}

/// True if `text` names the address in Gloo's form, "[10.0.0.2]:4711". The host is in brackets whatever its
/// family, and the port is in network byte order.
bool names(const std::string& text, const links::SocketAddress& address) {
  if (address.length() == 0) return false;
  const std::string name = fmt::format("[{}]:{}", address.host(), htons(address.port()));
  const auto at = text.find(name);
  if (at == std::string::npos) return false;
  const auto end = at + name.size();
  return end == text.size() || std::isdigit(static_cast<unsigned char>(text[end])) == 0;
}

/// Returns the inode of a socket; 0 if `fd` is not a socket. Avoids fstat: the descriptors belong to others,
/// who may be closing them, and ThreadSanitizer reports the use of one as a race.
ino_t socket_inode(int fd) {
  char text[64] = "";
  if (::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), text, sizeof text - 1) <= 0) return 0;
  constexpr std::string_view kSocket = "socket:[";
  if (!std::string_view(text).starts_with(kSocket)) return 0;
  return std::strtoul(text + kSocket.size(), nullptr, 10);
}

/// Calls `visit(fd, pair)` for every descriptor that is a socket of one of the pairs.
template <class Visit>
void for_each_socket_of(const std::vector<PairSockets::Pair>& pairs, Visit visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc/self/fd"), ::closedir);
  if (!directory) return;
  while (const dirent* entry = ::readdir(directory.get())) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] == '.' || socket_inode(fd) == 0) continue;
    if (const PairSockets::Pair* const pair = pair_of(fd, pairs)) visit(fd, *pair);
  }
}

/// Duplicates `fd`. The duplicate keeps its file, even if another thread closes `fd` and its number is used
/// again.
Fd duplicate_of(int fd) { return Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

}  // namespace

void PairSockets::expect(std::vector<Pair> pairs) {
  const std::lock_guard lock(mutex_);
  expected_ = std::move(pairs);
}

void PairSockets::adopt() {
  const std::lock_guard lock(mutex_);
  for_each_socket_of(expected_, [&](int fd, const Pair& pair) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    fork_guard_.add(fd);
    links::keep_alive(fd, peer_timeout_);
    const auto remote = links::SocketAddress::remote_of(fd);
    sockets_.push_back(
        {fd, socket_inode(fd), pair.set_rank, remote.is_ok() ? *remote : links::SocketAddress()});
  });
  expected_.clear();
}

void PairSockets::forget() {
  const std::lock_guard lock(mutex_);
  for (const Socket& socket : sockets_) fork_guard_.remove(socket.fd);
  sockets_.clear();
  expected_.clear();
}

std::optional<PairSockets::Lost> PairSockets::lost_peer() {
  const std::lock_guard lock(mutex_);
  if (peer_timeout_ <= Duration::zero()) return std::nullopt;
  for (Socket& socket : sockets_) {
    if (socket_inode(socket.fd) != socket.inode || links::is_over(socket.fd)) {
      // The kernel may have dropped the connection just before this check would have found it silent. A peer
      // that closes its connection has answered until then.
      const bool in_silence = socket.silence.last() > Duration::zero();
      if (in_silence || std::exchange(socket.was_over, true)) return Lost{socket.set_rank, in_silence};
      continue;
    }
    const Fd duplicate = duplicate_of(socket.fd);
    if (!duplicate || socket_inode(duplicate.get()) != socket.inode) continue;
    if (socket.silence.silent_for(duplicate.get(), Clock::now()) >= peer_timeout_)
      return Lost{socket.set_rank, true};
  }
  return std::nullopt;
}

void PairSockets::begin_run() {
  const std::lock_guard lock(mutex_);
  for (Socket& socket : sockets_) {
    socket.silence = {};
    socket.was_over = false;
  }
}

std::vector<int> PairSockets::broken(const std::string& said) {
  const std::lock_guard lock(mutex_);
  std::vector<int> all, named;
  for (const Socket& socket : sockets_) {
    if (socket_inode(socket.fd) == socket.inode) continue;
    all.push_back(socket.set_rank);
    if (names(said, socket.remote)) named.push_back(socket.set_rank);
  }
  return named.empty() ? all : named;
}

void PairSockets::shut_down() {
  const std::lock_guard lock(mutex_);
  for (const Socket& socket : sockets_) {
    const Fd duplicate = duplicate_of(socket.fd);
    // Without a spare descriptor, the check below has a race of nanoseconds. Not ending the wait would be
    // worse.
    const int fd = duplicate ? duplicate.get() : socket.fd;
    if (socket_inode(fd) == socket.inode) ::shutdown(fd, SHUT_RDWR);
  }
  if (expected_.empty()) return;
  // Shuts down only the reading half: Gloo may be about to ask a new connection for its peer's address. A
  // connection that is shut down in both directions has no such address. Gloo's thread would then throw,
  // which would end the process.
  for_each_socket_of(expected_, [&](int fd, const Pair&) {
    const Fd duplicate = duplicate_of(fd);
    if (duplicate && pair_of(duplicate.get(), expected_) != nullptr) ::shutdown(duplicate.get(), SHUT_RD);
  });
}

}  // namespace dabke::ops

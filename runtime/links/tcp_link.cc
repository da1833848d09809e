#include "runtime/links/tcp_link.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

namespace dabke::links {
namespace {

constexpr int kSocketType = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

Status set_option(int fd, int level, int name, int value, std::string_view what) {
  if (::setsockopt(fd, level, name, &value, sizeof value) == 0) return {};
  return system_error(fmt::format("setsockopt({})", what), errno);
}

/// The text for an established connection that broke, with its possible causes: a failed network is not a
/// killed process.
std::string loss_text(int errno_value) {
  std::string text = std::generic_category().message(errno_value);
  switch (errno_value) {
    case ECONNRESET:
    case EPIPE:
      return text +
             " (its process was killed or ended without dabke_shutdown, or the network cut the connection)";
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN: return text + " (the network between the hosts is cut, or its host is down)";
    default: return text;
  }
}

}  // namespace

Result<Fd> tcp_listen(const SocketAddress& address) {
  Fd fd(::socket(address.family(), kSocketType, 0));
  if (!fd) return system_error("socket", errno);
  if (address.family() == AF_INET6)
    DABKE_RETURN_IF_ERROR(set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY"));
  if (::bind(fd.get(), address.get(), address.length()) != 0) {
    return system_error(fmt::format("cannot bind to {}", address.to_string()), errno);
  }
  if (::listen(fd.get(), SOMAXCONN) != 0)
    return system_error(fmt::format("cannot listen on {}", address.to_string()), errno);
  return fd;
}

Result<Fd> tcp_accept(int listener) {
  while (true) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) return fd;
    switch (errno) {
      case EAGAIN: return Fd();
      case EMFILE:
      case ENFILE:
        return system_error("cannot accept a link; raise the limit on open files (ulimit -n)", errno);
      case EBADF:
      case EINVAL:
      case ENOMEM:
      case ENOBUFS: return system_error("accept", errno);
      default: break;  // the client's own errors, which Linux reports to accept4()
    }
  }
}

Result<Fd> tcp_connect(const SocketAddress& address) {
  Fd fd(::socket(address.family(), kSocketType, 0));
  if (!fd) return system_error("socket", errno);
  if (::connect(fd.get(), address.get(), address.length()) == 0 || errno == EINPROGRESS) return fd;
  return system_error(fmt::format("cannot connect to {}", address.to_string()), errno);
}

Status tcp_connected(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  return error == 0 ? Status() : system_error("cannot connect", error);
}

TcpLink::TcpLink(GuardedFd fd, LinkPeer peer, Duration peer_timeout)
    : fd_(std::move(fd)), peer_(std::move(peer)) {
  // Both options only tune: without them a link is slower, or notices a vanished host later.
  (void)set_option(fd_.get(), IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
  const auto remote = SocketAddress::remote_of(fd_.get());
  const auto local = SocketAddress::local_of(fd_.get());
  // Both ends of a connection within this network namespace have the same address, because the kernel takes
  // it for both.
  crosses_network_ = !remote.is_ok() || !local.is_ok() || !remote->has_host_of(*local);
  if (peer_timeout > Duration::zero() && crosses_network_) {
    const auto ms = poll_timeout_ms(Clock::time_point(peer_timeout), Clock::time_point());
    (void)set_option(fd_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, ms, "TCP_USER_TIMEOUT");
  }
}

Status TcpLink::send(std::span<const std::byte> frame) {
  if (frame.size() > kMaxFrameBytes) {
    return {Code::invalid_argument, fmt::format("a message of {} bytes for rank {} is above the limit of {}",
                                                frame.size(), peer_.rank, kMaxFrameBytes)};
  }
  if (!broken_.is_ok()) return broken_;
  auto header = frame_header(frame.size());
  std::size_t sent = 0;
  if (unsent_.empty()) {
    iovec parts[] = {{header.data(), header.size()}, {const_cast<std::byte*>(frame.data()), frame.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    ssize_t written = 0;
    do written = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (written < 0 && errno == EINTR);
    if (written < 0 && errno != EAGAIN) {
      break_off(errno);
      return broken_;
    }
    sent = written < 0 ? 0 : static_cast<std::size_t>(written);
  }
  if (sent < header.size()) unsent_.append(std::span(header).subspan(sent));
  const std::size_t body_sent = sent > header.size() ? sent - header.size() : 0;
  unsent_.append(frame.subspan(body_sent));
  return {};
}

void TcpLink::flush() {
  while (!unsent_.empty()) {
    const auto bytes = unsent_.readable();
    const ssize_t written = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) return;
    if (written < 0) return break_off(errno);
    unsent_.consume(static_cast<std::size_t>(written));
  }
}

// Messages that the peer sent before its end are still to be read, so receive() reports the loss: it finds
// the end of the stream behind the last message. This shutdown makes sure of that, whatever error sending
// met.
void TcpLink::break_off(int errno_value) {
  broken_ = Status(Code::peer_lost, fmt::format("sending failed: {}", loss_text(errno_value)));
  unsent_.clear();
  ::shutdown(fd_.get(), SHUT_RDWR);
}

Result<Link::Received> TcpLink::receive(FrameSink& sink) {
  constexpr std::size_t kMostAtOnce = 1 << 20;
  for (std::size_t total = 0; total < kMostAtOnce;) {
    const auto room = decoder_.writable();
    const ssize_t got = ::recv(fd_.get(), room.data(), room.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Received::all;
    if (got < 0) return Status(Code::peer_lost, loss_text(errno));
    if (got == 0) {
      DABKE_RETURN_IF_ERROR(broken_);
      if (decoder_.mid_frame())
        return Status(Code::peer_lost, "the connection ended in the middle of a message");
      return Received::closed;
    }
    decoder_.commit(static_cast<std::size_t>(got));
    DABKE_RETURN_IF_ERROR(decoder_.deliver(sink));
    // A read that did not fill its room has emptied the socket; another one would only cost a system call.
    if (static_cast<std::size_t>(got) < room.size()) return Received::all;
    total += static_cast<std::size_t>(got);
  }
  return Received::more;
}

void TcpLink::finish_sending() { ::shutdown(fd_.get(), SHUT_WR); }

bool TcpLink::all_arrived() const {
  int unacknowledged = 0;
  if (!broken_.is_ok() || ::ioctl(fd_.get(), SIOCOUTQ, &unacknowledged) != 0) return true;
  return unacknowledged == 0;
}

}  // namespace dabke::links

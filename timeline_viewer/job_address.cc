#include "timeline_viewer/job_address.h"

#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <memory>

#include <fmt/format.h>

namespace dabke::viewer {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// Returns an error number; 0 if connected.
int connect_by(const Fd& socket, const links::SocketAddress& address, TimePoint deadline) {
  if (!socket) return errno;
  if (::connect(socket.get(), address.get(), address.length()) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd entry{socket.get(), POLLOUT, 0};
  if (::poll(&entry, 1, poll_timeout_ms(deadline)) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

Result<std::vector<links::SocketAddress>> resolve_job_address(std::string_view text) {
  const auto colon = text.rfind(':');
  std::string_view host = text.substr(0, colon == std::string_view::npos ? 0 : colon);
  const bool is_bracketed = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  std::uint16_t port = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = colon == std::string_view::npos
                                ? std::from_chars_result{last, std::errc::invalid_argument}
                                : std::from_chars(text.data() + colon + 1, last, port);
  if (host.empty() || error != std::errc() || end != last || port == 0 ||
      (!is_bracketed && host.find_first_of(":[]") != std::string_view::npos))
    return Status(
        Code::invalid_argument,
        fmt::format("'{}' is not HOST:PORT, as in node1:4711, 10.0.0.2:4711 or [fd00::2]:4711", text));
  addrinfo hints{};
  hints.ai_family = is_bracketed ? AF_INET6 : AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = is_bracketed ? AI_NUMERICHOST : 0;
  addrinfo* found = nullptr;
  const std::string name(host);
  if (const int why = ::getaddrinfo(name.c_str(), nullptr, &hints, &found); why != 0) {
    return Status(Code::invalid_argument,
                  fmt::format("cannot find the host '{}': {}; use a name that is known here, or its address",
                              name, ::gai_strerror(why)));
  }
  const Addresses owned(found, &::freeaddrinfo);
  std::vector<links::SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
    addresses.push_back(links::SocketAddress(one->ai_addr, one->ai_addrlen).with_port(port));
  return addresses;
}

Result<Fd> connect_to_job(const std::string& text, TimePoint deadline) {
  DABKE_ASSIGN_OR_RETURN(const std::vector<links::SocketAddress> addresses, resolve_job_address(text));
  int worst = ECONNREFUSED;
  for (const links::SocketAddress& address : addresses) {
    Fd socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int error = connect_by(socket, address, deadline);
    if (error == 0) return socket;
    if (error != ECONNREFUSED) worst = error;
  }
  return Status(worst == ECONNREFUSED ? Code::peer_lost : Code::transport,
                fmt::format("cannot connect to {}: {}; check that the job still runs, and that this host can "
                            "reach that address",
                            text, ::strerror(worst)));
}

}  // namespace dabke::viewer

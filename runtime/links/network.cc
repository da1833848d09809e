#include "runtime/links/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

namespace dabke::links {

SocketAddress::SocketAddress(const sockaddr* address, socklen_t length) : length_(length) {
  std::memcpy(&storage_, address, std::min<std::size_t>(length, sizeof storage_));
}

Result<SocketAddress> SocketAddress::parse(std::string_view text) {
  const auto bad = [&] {
    return Status(Code::invalid_argument,
                  fmt::format("'{}' is not an address such as 10.0.0.2:4711 or [fd00::2]:4711", text));
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad();
  std::uint16_t port = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data() + colon + 1, last, port);
  if (error != std::errc() || end != last) return bad();
  std::string host(text.substr(0, colon));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    if (::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6.sin6_addr) != 1) return bad();
    return SocketAddress(reinterpret_cast<const sockaddr*>(&v6), sizeof v6).with_port(port);
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) != 1) return bad();
  return SocketAddress(reinterpret_cast<const sockaddr*>(&v4), sizeof v4).with_port(port);
}

Result<SocketAddress> SocketAddress::local_of(int fd) {
  SocketAddress address;
  address.length_ = sizeof address.storage_;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage_), &address.length_) == 0)
    return address;
  return system_error("getsockname", errno);
}

Result<SocketAddress> SocketAddress::remote_of(int fd) {
  SocketAddress address;
  address.length_ = sizeof address.storage_;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address.storage_), &address.length_) == 0)
    return address;
  return system_error("getpeername", errno);
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  }
  return family() == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
}

bool SocketAddress::has_host_of(const SocketAddress& other) const {
  if (is_loopback() && other.is_loopback()) return true;
  if (family() != other.family()) return false;
  if (family() == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(get())->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(other.get())->sin_addr.s_addr;
  }
  return family() == AF_INET6 &&
         IN6_ARE_ADDR_EQUAL(&reinterpret_cast<const sockaddr_in6*>(get())->sin6_addr,
                            &reinterpret_cast<const sockaddr_in6*>(other.get())->sin6_addr);
}

SocketAddress SocketAddress::with_port(std::uint16_t port) const {
  SocketAddress copy = *this;
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&copy.storage_)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&copy.storage_)->sin_port = htons(port);
  }
  return copy;
}

Result<SocketAddress> SocketAddress::of_host(std::string_view host) {
  return parse(host.find(':') == std::string_view::npos ? fmt::format("{}:0", host)
                                                        : fmt::format("[{}]:0", host));
}

std::string SocketAddress::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage_);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage_);
  const void* bytes = family() == AF_INET6 ? static_cast<const void*>(&v6->sin6_addr) : &v4->sin_addr;
  ::inet_ntop(family(), bytes, text, sizeof text);
  return text;
}

std::uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port
                                    : reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
}

std::string SocketAddress::to_string() const {
  return family() == AF_INET6 ? fmt::format("[{}]:{}", host(), port()) : fmt::format("{}:{}", host(), port());
}

Result<SocketAddress> listening_address(const World& world) {
  return SocketAddress::of_host(world.address.empty() ? "127.0.0.1" : world.address);
}

}  // namespace dabke::links

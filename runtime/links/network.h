// Socket addresses.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/base/world.h"

namespace dabke::links {

/// A numeric IPv4 or IPv6 address with a port.
class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const sockaddr* address, socklen_t length);
  /// "10.0.0.2:4711" or "[fd00::2]:4711", as to_string() writes them.
  static Result<SocketAddress> parse(std::string_view text);
  /// "10.0.0.2" or "fd00::2", as host() writes them; port 0.
  static Result<SocketAddress> of_host(std::string_view host);
  /// The local or the remote end of a socket.
  static Result<SocketAddress> local_of(int fd);
  static Result<SocketAddress> remote_of(int fd);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }
  int family() const { return storage_.ss_family; }
  bool is_loopback() const;
  /// True if both are of one host, whatever their ports; two loopback addresses are.
  bool has_host_of(const SocketAddress& other) const;
  SocketAddress with_port(std::uint16_t port) const;
  std::string host() const;
  std::uint16_t port() const;
  std::string to_string() const;

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

/// The address on which this rank listens for the others, for any purpose: World::address, port 0.
Result<SocketAddress> listening_address(const World& world);

}  // namespace dabke::links

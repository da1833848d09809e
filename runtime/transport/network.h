// Socket addresses, and which of this host's addresses the other ranks can reach.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/config.h"
#include "runtime/base/status.h"
#include "runtime/base/world.h"

namespace dabke {

/// A numeric IPv4 or IPv6 address with a port.
class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const sockaddr* address, socklen_t length);
  /// "10.0.0.2:4711" or "[fd00::2]:4711", as to_string() writes them.
  static Result<SocketAddress> parse(std::string_view text);
  /// The local or the remote end of a socket.
  static Result<SocketAddress> local_of(int fd);
  static Result<SocketAddress> remote_of(int fd);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }
  int family() const { return storage_.ss_family; }
  bool is_loopback() const;
  /// Whether both are of one host, whatever their ports; two of loopback are.
  bool has_host_of(const SocketAddress& other) const;
  SocketAddress with_port(std::uint16_t port) const;
  std::string to_string() const;

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

/// The address (port 0) on which this rank listens for the others:
/// that of config.network_interface when it is set (the first of a comma-separated list that has one);
/// loopback when all ranks are on one host; else the one from which this host reaches the rendezvous
/// (Store::describe()), or its default route when the rendezvous has no host or is local to us. Errors list
/// the interfaces that there are.
Result<SocketAddress> choose_address(const Config& config, const World& world, const std::string& rendezvous);

}  // namespace dabke

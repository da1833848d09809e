// The addresses of this host, and which of them may serve the links between ranks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"
#include "runtime/links/network.h"

namespace dabke::links {

/// An address (port 0), and the interface that has it.
struct HostAddress {
  SocketAddress address;
  std::string interface;
};

/// An interface, up or down, with the addresses that others could use.
struct Interface {
  std::string name;
  std::vector<SocketAddress> addresses;
};
Result<std::vector<Interface>> list_interfaces();

/// The addresses that `selection` names, in its order. It is a comma-separated list:
///   10.1.0.5, 10.1.0.0/16  an address, a network
///   eth0                   the interface; if there is none, all interfaces whose names begin with that
///   =eth0                  only the interface of that name
///   ^lo,docker             all addresses except those of the list, in which a name always means all
///                          interfaces whose names begin with it
/// NCCL's selections have the same meaning. Names and networks that this host does not have are skipped. Code
/// invalid_argument if nothing is left, with a list of the interfaces, or if a network makes no sense.
Result<std::vector<HostAddress>> selected_addresses(const std::vector<Interface>& interfaces,
                                                    std::string_view selection);

/// The most addresses of a host, because hosts of containers have very many.
inline constexpr std::size_t kMostHostAddresses = 16;

/// The addresses at which this host may be reached: at most kMostHostAddresses, the likeliest first.
/// config.network_interface selects them if it is set. If it gives no order, the order is: the
/// address from which packets leave for the rendezvous (Store::describe()), the one of the default route,
/// network cards, virtual interfaces, loopback. Loopback serves if all "hosts" are one.
Result<std::vector<HostAddress>> candidate_addresses(const Config& config, const std::string& rendezvous);

/// The address on which ranks listen if the job is on this host alone: loopback, or the first that
/// config.network_interface selects.
Result<SocketAddress> address_on_one_host(const Config& config);

}  // namespace dabke::links

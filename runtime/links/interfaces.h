// The addresses that this host has, and which of them may serve the links between ranks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"
#include "runtime/links/network.h"

namespace dabke::links {

/// An address (port 0) and the interface that has it.
struct HostAddress {
  SocketAddress address;
  std::string interface;
};

/// An interface that is up or down; only what others could use counts as an address of it.
struct Interface {
  std::string name;
  std::vector<SocketAddress> addresses;
};
Result<std::vector<Interface>> list_interfaces();

/// What `selection` names, in its order: interfaces, addresses, and networks such as 10.1.0.0/16, with commas
/// between. A name that no interface has stands for all that begin with it; "=eth0" does not. After a "^" before the list: what it
/// does not name, and there a name stands for all that begin with it in any case. So NCCL's selections mean the same. Names and networks that this host does not have are passed over. Code invalid_argument where nothing is
/// left, or where an address or network makes no sense; it lists what there is.
Result<std::vector<HostAddress>> selected_addresses(const std::vector<Interface>& interfaces,
                                                    std::string_view selection);

/// Hosts of containers have very many.
inline constexpr std::size_t kMostHostAddresses = 16;

/// What this host may be reached at, so many at most, the likeliest first: what config.network_interface selects; else the address
/// from which packets leave for the rendezvous (Store::describe()) or by the default route, then those of network
/// cards, of virtual interfaces, and of loopback, which serves where all "hosts" are one.
Result<std::vector<HostAddress>> candidate_addresses(const Config& config, const std::string& rendezvous);

/// Where ranks of a job on this host alone listen: loopback, or what config.network_interface selects first.
Result<SocketAddress> address_on_one_host(const Config& config);

}  // namespace dabke::links

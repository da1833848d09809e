#include "runtime/transport/network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/base/owned.h"

namespace dabke {
namespace {

using Interfaces = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

Result<Interfaces> list_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return system_error("getifaddrs", errno);
  return Interfaces(first, &::freeifaddrs);
}

std::optional<SocketAddress> address_in(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return std::nullopt;
  if (entry.ifa_addr->sa_family == AF_INET) return SocketAddress(entry.ifa_addr, sizeof(sockaddr_in));
  if (entry.ifa_addr->sa_family != AF_INET6) return std::nullopt;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
  // A link-local address means nothing to another host without naming an interface of that host.
  if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) return std::nullopt;
  return SocketAddress(entry.ifa_addr, sizeof(sockaddr_in6));
}

/// The first address for which `wanted` holds; IPv4 before IPv6.
template <class Wanted>
std::optional<SocketAddress> find_address(const Interfaces& interfaces, Wanted wanted) {
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = interfaces.get(); entry != nullptr; entry = entry->ifa_next) {
      const auto address = address_in(*entry);
      if (address && address->family() == family && wanted(*entry, *address)) return address;
    }
  }
  return std::nullopt;
}

/// "lo (127.0.0.1, ::1), eth0 (10.0.0.2), eth1 (no address)"
std::string describe_interfaces(const Interfaces& interfaces) {
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  for (const ifaddrs* entry = interfaces.get(); entry != nullptr; entry = entry->ifa_next) {
    auto row = std::ranges::find_if(rows, [&](const auto& known) { return known.first == entry->ifa_name; });
    if (row == rows.end()) row = rows.insert(rows.end(), {entry->ifa_name, {}});
    if (const auto address = address_in(*entry)) {
      const std::string text = address->to_string();
      row->second.push_back(text.substr(0, text.rfind(':')));
    }
  }
  std::vector<std::string> texts;
  for (const auto& [name, addresses] : rows) {
    texts.push_back(
        fmt::format("{} ({})", name,
                    addresses.empty() ? "no usable address" : fmt::format("{}", fmt::join(addresses, ", "))));
  }
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

Result<SocketAddress> address_of_interface(const Interfaces& interfaces, std::string_view names) {
  for (std::string_view rest = names; !rest.empty();) {
    const auto comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    if (const auto found = find_address(
            interfaces, [&](const ifaddrs& entry, const auto&) { return name == entry.ifa_name; })) {
      return found->with_port(0);
    }
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return Status(
      Code::invalid_argument,
      fmt::format(
          "DABKE_NETWORK_INTERFACE: this host has no interface '{}' that is up and has an address; it has {}",
          names, describe_interfaces(interfaces)));
}

/// The local address from which a packet to `target` would leave; nothing is sent.
std::optional<SocketAddress> source_towards(const SocketAddress& target) {
  const Fd fd(::socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), target.get(), target.length()) != 0) return std::nullopt;
  auto source = SocketAddress::local_of(fd.get());
  if (!source.is_ok() || source->is_loopback()) return std::nullopt;
  return source->with_port(0);
}

/// The host in "http://host:port/...", without the brackets of an IPv6 address.
std::optional<std::string> host_of(std::string_view url) {
  const auto scheme = url.find("://");
  if (scheme == std::string_view::npos) return std::nullopt;
  url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find('/'));
  if (url.starts_with('[')) return std::string(url.substr(1, url.find(']') - 1));
  return std::string(url.substr(0, url.find(':')));
}

std::optional<SocketAddress> source_towards_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* first = nullptr;
  if (::getaddrinfo(host.c_str(), "9", &hints, &first) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(first, &::freeaddrinfo);
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next) {
    if (auto source = source_towards(SocketAddress(entry->ai_addr, entry->ai_addrlen))) return source;
  }
  return std::nullopt;
}

}  // namespace

SocketAddress::SocketAddress(const sockaddr* address, socklen_t length) : length_(length) {
  std::memcpy(&storage_, address, std::min<std::size_t>(length, sizeof storage_));
}

Result<SocketAddress> SocketAddress::parse(std::string_view text) {
  const auto bad = [&] {
    return Status(Code::invalid_argument,
                  fmt::format("'{}' is no address like 10.0.0.2:4711 or [fd00::2]:4711", text));
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

std::string SocketAddress::to_string() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage_);
    ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
    return fmt::format("[{}]:{}", text, ntohs(v6->sin6_port));
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage_);
  ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
  return fmt::format("{}:{}", text, ntohs(v4->sin_port));
}

Result<SocketAddress> choose_address(const Config& config, const World& world,
                                     const std::string& rendezvous) {
  DABKE_ASSIGN_OR_RETURN(const Interfaces interfaces, list_interfaces());
  if (!config.network_interface.empty()) return address_of_interface(interfaces, config.network_interface);

  const bool one_host =
      std::ranges::all_of(world.hosts, [&](const auto& host) { return host == world.hosts.front(); });
  if (one_host) {
    const auto loopback = find_address(
        interfaces, [](const auto&, const SocketAddress& address) { return address.is_loopback(); });
    if (loopback) return loopback->with_port(0);
    return Status(Code::transport, fmt::format("this host has no loopback address; its interfaces are {}",
                                               describe_interfaces(interfaces)));
  }
  if (const auto host = host_of(rendezvous)) {
    if (auto source = source_towards_host(*host)) return *source;
  }
  // Addresses kept for documentation: no host has them, so the default route would carry the packet.
  for (const char* nowhere : {"192.0.2.1:9", "[2001:db8::1]:9"}) {
    if (auto source = source_towards(*SocketAddress::parse(nowhere))) return *source;
  }
  return Status(Code::transport,
                fmt::format("the job is on several hosts, but no route shows which network links them; set "
                            "DABKE_NETWORK_INTERFACE to one of this host's interfaces: {}",
                            describe_interfaces(interfaces)));
}

}  // namespace dabke

#include "runtime/links/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/base/threads/owned.h"

namespace dabke::links {
namespace {

std::optional<SocketAddress> address_in(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return std::nullopt;
  if (entry.ifa_addr->sa_family == AF_INET)
    return SocketAddress(entry.ifa_addr, sizeof(sockaddr_in)).with_port(0);
  if (entry.ifa_addr->sa_family != AF_INET6) return std::nullopt;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
  // A link-local address means nothing to another host unless it names an interface of that host.
  if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) return std::nullopt;
  return SocketAddress(entry.ifa_addr, sizeof(sockaddr_in6)).with_port(0);
}

/// "lo (127.0.0.1, ::1), eth0 (10.0.0.2), eth1 (no usable address)"
std::string describe_interfaces(const std::vector<Interface>& interfaces) {
  std::vector<std::string> texts;
  for (const Interface& each : interfaces) {
    std::vector<std::string> hosts;
    for (const SocketAddress& address : each.addresses) hosts.push_back(address.host());
    texts.push_back(
        fmt::format("{} ({})", each.name,
                    hosts.empty() ? "no usable address" : fmt::format("{}", fmt::join(hosts, ", "))));
  }
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<HostAddress> all_addresses(const std::vector<Interface>& interfaces) {
  std::vector<HostAddress> all;
  for (const Interface& each : interfaces) {
    for (const SocketAddress& address : each.addresses) all.push_back({address, each.name});
  }
  return all;
}

std::span<const unsigned char> bytes_of(const SocketAddress& address) {
  if (address.family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address.get());
    return {v6->sin6_addr.s6_addr, 16};
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(address.get());
  return {reinterpret_cast<const unsigned char*>(&v4->sin_addr), 4};
}

/// One word of a selection.
struct Wanted {
  std::string_view name;                 // of an interface, if it is not an address
  bool is_prefix = false;                // the name means all interfaces whose names begin with it
  std::optional<SocketAddress> network;  // an address; its first `bits` bits count
  std::size_t bits = 0;

  bool takes(const HostAddress& each) const {
    if (!network) return is_prefix ? each.interface.starts_with(name) : each.interface == name;
    const auto own = bytes_of(each.address), wanted = bytes_of(*network);
    if (own.size() != wanted.size()) return false;
    for (std::size_t bit = 0; bit < bits; ++bit) {
      const int mask = 0x80 >> (bit % 8);
      if (((own[bit / 8] ^ wanted[bit / 8]) & mask) != 0) return false;
    }
    return true;
  }
};

/// `excludes` is true if the list names what is not to be taken.
Result<Wanted> wanted_by(std::string_view word, const std::vector<Interface>& interfaces, bool excludes) {
  if (word.starts_with('^'))
    return Status(
        Code::invalid_argument,
        fmt::format("DABKE_NETWORK_INTERFACE: '{}': put ^ once, before the whole list, as in ^lo,docker",
                    word));
  if (word.starts_with('=')) return Wanted{.name = word.substr(1), .network = {}};
  const auto slash = word.find('/');
  const auto network = SocketAddress::of_host(word.substr(0, slash));
  if (!network.is_ok() && slash == std::string_view::npos) {
    const bool is_known = std::ranges::find(interfaces, word, &Interface::name) != interfaces.end();
    return Wanted{.name = word, .is_prefix = excludes || !is_known, .network = {}};
  }
  const std::size_t most = network.is_ok() ? 8 * bytes_of(*network).size() : 0;
  std::size_t bits = most;
  if (slash != std::string_view::npos) {
    const std::string_view text = word.substr(slash + 1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits);
    if (!network.is_ok() || error != std::errc() || end != text.data() + text.size() || bits > most)
      return Status(
          Code::invalid_argument,
          fmt::format("DABKE_NETWORK_INTERFACE: '{}' is not a network such as 10.1.0.0/16 or fd00::/64",
                      word));
  }
  return Wanted{.name = word, .network = *network, .bits = bits};
}

/// The words of a selection, without blanks and without empty words.
Result<std::vector<Wanted>> words_of(std::string_view selection, const std::vector<Interface>& interfaces,
                                     bool excludes) {
  std::vector<Wanted> words;
  for (std::string_view rest = selection; !rest.empty();) {
    const auto comma = rest.find(',');
    std::string_view word = rest.substr(0, comma);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    if (word.empty()) continue;
    DABKE_ASSIGN_OR_RETURN(const Wanted wanted, wanted_by(word, interfaces, excludes));
    words.push_back(wanted);
  }
  return words;
}

/// The local address from which a packet to `target` would leave. Nothing is sent.
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

/// The local addresses from which packets leave for the rendezvous, and then by the default route.
std::vector<SocketAddress> routed_addresses(const std::string& rendezvous) {
  std::vector<SocketAddress> routed;
  if (const auto host = host_of(rendezvous)) {
    if (auto source = source_towards_host(*host)) routed.push_back(*source);
  }
  // Addresses reserved for documentation: no host has them, so the default route would carry the packet.
  for (const char* nowhere : {"192.0.2.1:9", "[2001:db8::1]:9"}) {
    if (auto source = source_towards(*SocketAddress::parse(nowhere))) routed.push_back(*source);
  }
  return routed;
}

/// The lower this number, the likelier others reach the address.
std::size_t unlikeliness(const HostAddress& each, const std::vector<SocketAddress>& routed) {
  const auto found = std::ranges::find_if(
      routed, [&](const SocketAddress& source) { return source.has_host_of(each.address); });
  if (found != routed.end()) return static_cast<std::size_t>(found - routed.begin());
  if (each.address.is_loopback()) return routed.size() + 2;
  std::error_code error;
  const bool is_card =
      std::filesystem::exists(std::filesystem::path("/sys/class/net") / each.interface / "device", error);
  return routed.size() + (is_card ? 0 : 1);
}

}  // namespace

Result<std::vector<Interface>> list_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return system_error("getifaddrs", errno);
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    auto row = std::ranges::find(interfaces, entry->ifa_name, &Interface::name);
    if (row == interfaces.end()) row = interfaces.insert(interfaces.end(), {entry->ifa_name, {}});
    if (const auto address = address_in(*entry)) row->addresses.push_back(*address);
  }
  return interfaces;
}

Result<std::vector<HostAddress>> selected_addresses(const std::vector<Interface>& interfaces,
                                                    std::string_view selection) {
  const std::vector<HostAddress> all = all_addresses(interfaces);
  std::vector<HostAddress> selected;
  const bool excludes = selection.starts_with('^');
  DABKE_ASSIGN_OR_RETURN(const std::vector<Wanted> words,
                         words_of(selection.substr(excludes ? 1 : 0), interfaces, excludes));
  if (excludes) {
    std::ranges::copy_if(all, std::back_inserter(selected), [&](const HostAddress& each) {
      return std::ranges::none_of(words, [&](const Wanted& word) { return word.takes(each); });
    });
  }
  for (std::size_t i = 0; i < words.size() && !excludes; ++i) {
    for (const HostAddress& each : all) {
      const bool is_new = std::ranges::none_of(
          selected, [&](const HostAddress& known) { return known.address.host() == each.address.host(); });
      if (is_new && words[i].takes(each)) selected.push_back(each);
    }
  }
  if (!selected.empty()) return selected;
  return Status(
      Code::invalid_argument,
      fmt::format("DABKE_NETWORK_INTERFACE: this host has no '{}' that is up and has an address; it "
                  "has {}",
                  selection, describe_interfaces(interfaces)));
}

Result<std::vector<HostAddress>> candidate_addresses(const Config& config, const std::string& rendezvous) {
  DABKE_ASSIGN_OR_RETURN(const std::vector<Interface> interfaces, list_interfaces());
  std::vector<HostAddress> all = all_addresses(interfaces);
  const std::string& selection = config.network_interface;
  if (!selection.empty()) {
    DABKE_ASSIGN_OR_RETURN(all, selected_addresses(interfaces, selection));
  }
  // If the selection only excludes, the order of the rest is not the user's choice.
  if (selection.empty() || selection.starts_with('^')) {
    const std::vector<SocketAddress> routed = routed_addresses(rendezvous);
    std::ranges::stable_sort(all, {}, [&](const HostAddress& each) { return unlikeliness(each, routed); });
  }
  all.resize(std::min(all.size(), kMostHostAddresses));
  if (!all.empty()) return all;
  return Status(Code::transport, fmt::format("this host has no address; its interfaces are {}",
                                             describe_interfaces(interfaces)));
}

Result<SocketAddress> address_on_one_host(const Config& config) {
  DABKE_ASSIGN_OR_RETURN(const std::vector<Interface> interfaces, list_interfaces());
  if (!config.network_interface.empty()) {
    DABKE_ASSIGN_OR_RETURN(const auto selected, selected_addresses(interfaces, config.network_interface));
    return selected.front().address;
  }
  for (const HostAddress& each : all_addresses(interfaces)) {
    if (each.address.is_loopback()) return each.address;
  }
  return Status(Code::transport, fmt::format("this host has no loopback address; its interfaces are {}",
                                             describe_interfaces(interfaces)));
}

}  // namespace dabke::links

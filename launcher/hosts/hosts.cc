#include "launcher/hosts/hosts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/base/clock.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool is_ipv6(const std::string& text) {
  in6_addr address{};
  return ::inet_pton(AF_INET6, text.substr(0, text.find('%')).c_str(), &address) == 1;
}

std::optional<int> parse_slots(std::string_view text) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error != std::errc() || end != text.data() + text.size() || slots < 1 || slots > kMostSlots)
    return std::nullopt;
  return slots;
}

/// Parses "name", "name:slots", "[address]" or "[address]:slots".
std::optional<Host> parse_host(std::string_view text, int without_number = 1) {
  Host host{.name = {}, .slots = without_number};
  std::string_view slots;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    host.name = text.substr(1, close - 1);
    slots = text.substr(close + 1);
  } else {
    const auto colon = text.find(':');
    host.name = text.substr(0, colon);
    slots = colon == std::string_view::npos ? std::string_view() : text.substr(colon);
  }
  if (host.name.empty() || host.name.find_first_of(" \t=@/[]") != std::string::npos) return std::nullopt;
  if (slots.empty()) return host;
  const auto count = slots.starts_with(':') ? parse_slots(slots.substr(1)) : std::nullopt;
  if (!count) return std::nullopt;
  host.slots = *count;
  return host;
}

/// Returns the remedy for a text that is not a host, if its form shows one; begins with "; ".
std::string remedy_for(std::string_view text) {
  if (text.find('@') != std::string_view::npos) return "; give the user with --ssh-user";
  const std::string name(text.substr(0, text.find_first_of(" \t")));
  if (!name.starts_with('[') && std::ranges::count(name, ':') > 1)
    return fmt::format("; put an IPv6 address in brackets, as in {}",
                       is_ipv6(name) ? "[" + name + "]" : "[fd00::1]:4");
  const std::string_view end = text.substr(text.find_last_of(":=") + 1);
  if (end == "0") return "; leave out a host without ranks";
  return "";
}

/// Takes "slots=4" and "max_slots=8", also with blanks around the equals sign, as in Open MPI's host files.
/// False if they are invalid. `max_slots` has no effect, because a host takes no more ranks than it has
/// slots.
bool take_settings(std::string_view text, Host& host) {
  std::string settings;
  for (const char c : text) {
    const bool is_blank = c == ' ' || c == '\t';
    if (is_blank && (settings.empty() || settings.ends_with('=') || settings.ends_with(' '))) continue;
    if (c == '=' && settings.ends_with(' ')) settings.pop_back();
    settings += is_blank ? ' ' : c;
  }
  std::optional<int> slots, most;
  std::istringstream words(settings);
  for (std::string word; words >> word;) {
    const auto equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, equals);
    std::optional<int>& number = name == "slots" ? slots : most;
    if ((name != "slots" && name != "max_slots" && name != "max-slots") || number) return false;
    number = parse_slots(std::string_view(word).substr(std::min(equals + 1, word.size())));
    if (!number) return false;
  }
  if (!slots || (most && *most < *slots)) return false;
  host.slots = *slots;
  return true;
}

using IpAddress = std::array<unsigned char, 16>;

/// Returns IPv4 addresses in their IPv6 form, so that both forms compare equal.
std::optional<IpAddress> ip_of(const sockaddr* address) {
  IpAddress ip{};
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    ip[10] = ip[11] = 0xff;
    std::memcpy(ip.data() + 12, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
    return ip;
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  std::memcpy(ip.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
  return ip;
}

std::vector<IpAddress> addresses_of_this_host() {
  std::vector<IpAddress> out;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return out;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (const auto ip = ip_of(each->ifa_addr)) out.push_back(*ip);
  }
  ::freeifaddrs(first);
  return out;
}

bool is_loopback(const IpAddress& ip) {
  constexpr IpAddress kIpv6Loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  const bool is_ipv4 = ip[10] == 0xff && ip[11] == 0xff;
  return ip == kIpv6Loopback || (is_ipv4 && ip[12] == 127);
}

/// The limit of the lookups. A name that is not resolved by then counts as another host. If it is this host,
/// its agent reports that.
constexpr std::chrono::seconds kLookupLimit{3};
constexpr std::size_t kLookupsAtOnce = 64;

/// Runs in a process of its own, because a name service may be slow for each of very many names, and the
/// launcher has one thread.
[[noreturn]] void look_up(const std::vector<Host>& hosts, const std::vector<std::size_t>& numbers,
                          int answers) {
  std::atomic<std::size_t> next = 0;
  const auto look = [&] {
    for (std::size_t i = next++; i < numbers.size(); i = next++) {
      const auto answer = static_cast<std::uint32_t>(numbers[i]);
      if (is_this_host(hosts[answer].name)) (void)!::write(answers, &answer, sizeof answer);
    }
  };
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < std::min(numbers.size(), kLookupsAtOnce)) threads.emplace_back(look);
  } catch (const std::system_error&) {  // continue with the threads so far
  }
  look();
  for (std::thread& thread : threads) thread.join();
  ::_exit(0);
}

}  // namespace

int add_slots(int a, int b) { return a > kMostSlots - b ? kMostSlots : a + b; }

Result<std::vector<Host>> parse_host_list(std::string_view text, std::string_view source) {
  std::vector<Host> hosts;
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    const std::string_view part = trimmed(rest.substr(0, comma));
    auto host = parse_host(part);
    if (!host) {
      return Status(
          Code::invalid_argument,
          fmt::format("{} {}: '{}' is not a host: expected name:slots, with commas between hosts, as in "
                      "localhost:4{}",
                      source, text, part, remedy_for(part)));
    }
    hosts.push_back(std::move(*host));
    if (comma == std::string_view::npos) return hosts;
    rest.remove_prefix(comma + 1);
  }
}

Result<std::vector<Host>> parse_hostfile(std::string_view text, std::string_view path, int slots) {
  std::vector<Host> hosts;
  int number = 0;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // some editors begin every file with it
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  for (std::string_view rest = text; !rest.empty();) {
    const auto newline = rest.find('\n');
    std::string_view line = rest.substr(0, newline);
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    ++number;
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const auto space = line.find_first_of(" \t");
    auto host = parse_host(line.substr(0, space), slots);
    if (host && space != std::string_view::npos && !take_settings(line.substr(space), *host)) host.reset();
    if (!host) {
      return Status(
          Code::invalid_argument,
          fmt::format(
              "{} line {}: '{}' is not a host: expected a name and its slots, as in 'localhost slots=4'{}",
              path, number, line, remedy_for(line)));
    }
    hosts.push_back(std::move(*host));
  }
  if (hosts.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("{} names no host: expected lines such as 'localhost slots=4'", path));
  }
  return hosts;
}

Result<std::vector<Host>> read_hostfile(const std::string& path, std::string_view source) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  ssize_t got = file ? 1 : -1;
  while (got > 0) {
    std::array<char, 4096> chunk;
    got = ::read(file.get(), chunk.data(), chunk.size());
    if (got > 0) text.append(chunk.data(), static_cast<std::size_t>(got));
    if (got < 0 && errno == EINTR) got = 1;
  }
  if (got < 0) {
    return Status(Code::invalid_argument, fmt::format("{} {}: cannot read it: {}", source, path,
                                                      std::generic_category().message(errno)));
  }
  return parse_hostfile(text, fmt::format("{} {}", source, path));
}

std::vector<Host> merge_hosts(const std::vector<Host>& hosts) {
  std::vector<Host> merged;
  std::unordered_map<std::string_view, std::size_t> numbers;
  for (const Host& host : hosts) {
    const auto [known, is_new] = numbers.try_emplace(host.name, merged.size());
    if (is_new) {
      merged.push_back(host);
    } else {
      Host& same = merged[known->second];
      same.slots = add_slots(same.slots, host.slots);
    }
  }
  return merged;
}

std::vector<Host> first_hosts(std::vector<Host> hosts, int ranks) {
  int slots = 0;
  const auto last = std::ranges::find_if(
      hosts, [&](const Host& host) { return (slots = add_slots(slots, host.slots)) >= ranks; });
  if (ranks > 0 && last != hosts.end()) hosts.erase(last + 1, hosts.end());
  return hosts;
}

std::string this_host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

bool is_this_host(const std::string& name) {
  if (name == "localhost" || name == this_host_name()) return true;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return false;
  const auto ours = addresses_of_this_host();
  bool is_ours = false;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const auto ip = ip_of(each->ai_addr);
    is_ours = is_ours || (ip && (is_loopback(*ip) || std::ranges::find(ours, *ip) != ours.end()));
  }
  ::freeaddrinfo(found);
  return is_ours;
}

std::vector<std::size_t> find_this_host(const std::vector<Host>& hosts) {
  std::vector<std::size_t> found, others;
  const std::string own = this_host_name();
  for (std::size_t i = 0; i < hosts.size(); ++i)
    (hosts[i].name == "localhost" || hosts[i].name == own ? found : others).push_back(i);
  int ends[2];
  if (others.empty() || ::pipe2(ends, O_CLOEXEC) != 0) return found;
  const Fd results(ends[0]);
  Fd answers(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) look_up(hosts, others, answers.get());
  answers = Fd();
  const TimePoint until = Clock::now() + kLookupLimit;
  while (child > 0) {
    pollfd entry{results.get(), POLLIN, 0};
    std::uint32_t number = 0;
    if (::poll(&entry, 1, poll_timeout_ms(until)) == 0) break;
    const ssize_t got = ::read(results.get(), &number, sizeof number);
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof number)) break;
    found.push_back(number);
  }
  if (child > 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  std::ranges::sort(found);
  return found;
}

MergedHosts merge_this_host(const std::vector<Host>& hosts) {
  MergedHosts merged{merge_hosts(hosts), {}, {}};
  const std::vector<std::size_t> here = find_this_host(merged.hosts);
  if (here.empty()) return merged;
  merged.here = merged.hosts[here.front()].name;
  for (const std::size_t number : here) {
    if (here.size() > 1) merged.names.push_back(merged.hosts[number].name);
    merged.hosts[number].name = merged.here;
  }
  merged.hosts = merge_hosts(merged.hosts);
  return merged;
}

std::string one_machine_notice(const std::vector<std::string>& names) {
  return fmt::format("{} are one machine, so they count as one host, {}", fmt::join(names, ", "),
                     names.front());
}

}  // namespace dabke::launcher

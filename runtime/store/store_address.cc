#include "runtime/store/store_address.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/base/hmac.h"
#include "runtime/base/threads/owned.h"
#include "runtime/links/tcp_link.h"
#include "runtime/store/http_answer.h"
#include "runtime/store/store_protocol.h"

namespace dabke::store {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kScheme = "http://";
/// The extra time for likelier addresses, once another one has answered.
constexpr Duration kGrace = 50ms;
/// The pause before asking a store again that has dropped us among the strangers that besiege it.
constexpr Duration kAgain = 100ms;

Result<StoreAddress> resolve(std::string_view authority, const std::string& url) {
  const Status bad(
      Code::invalid_argument,
      fmt::format("'{}' is not the address of a rendezvous store: expected http://host:port", url));
  const auto colon = authority.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || authority.find('/') != std::string_view::npos)
    return bad;
  std::string host(authority.substr(0, colon));
  const std::string port_text(authority.substr(colon + 1));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  unsigned port = 0;
  const char* last = port_text.data() + port_text.size();
  if (const auto [end, error] = std::from_chars(port_text.data(), last, port);
      error != std::errc() || end != last || port == 0 || port > 65535)
    return bad;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* first = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port_text.c_str(), &hints, &first); error != 0)
    return Status(Code::transport, fmt::format("cannot find the host of the rendezvous store {}: {}", url,
                                               ::gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(first, &::freeaddrinfo);
  return StoreAddress{std::string(authority), links::SocketAddress(found->ai_addr, found->ai_addrlen)};
}

/// A request to one address, until it is answered or has failed.
class Trial {
 public:
  Trial(const StoreAddress& address, std::string nonce, std::string request)
      : address_(address), nonce_(std::move(nonce)), unsent_(std::move(request)) {
    auto fd = links::tcp_connect(address.at);
    trouble_ = fd.status();
    if (fd.is_ok()) fd_ = fd.take();
  }

  const StoreAddress& address() const { return address_; }
  bool is_under_way() const { return static_cast<bool>(fd_); }
  bool has_answered() const { return has_answered_; }
  bool was_dropped() const { return was_dropped_; }
  std::string trouble() const {
    return fmt::format("{} ({})", address_.authority, is_under_way() ? "no answer" : trouble_.message());
  }
  /// poll() ignores an entry whose descriptor is -1.
  pollfd poll_entry() const { return {fd_.get(), static_cast<short>(unsent_.empty() ? POLLIN : POLLOUT), 0}; }
  void advance(const StoreSecret& secret) {
    auto answered = step(secret);
    if (answered.is_ok() && !*answered) return;
    has_answered_ = answered.is_ok();
    trouble_ = answered.status();
    fd_ = Fd();
  }

 private:
  /// True if the store has answered.
  Result<bool> step(const StoreSecret& secret) {
    DABKE_RETURN_IF_ERROR(links::tcp_connected(fd_.get()));
    while (!unsent_.empty()) {
      const ssize_t sent = ::send(fd_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return errno == EAGAIN ? Result<bool>(false) : system_error("send", errno);
      unsent_.erase(0, static_cast<std::size_t>(sent));
    }
    std::array<char, 4096> chunk;
    for (;;) {
      const ssize_t got = ::recv(fd_.get(), chunk.data(), chunk.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return errno == EAGAIN ? Result<bool>(false) : system_error("recv", errno);
      if (got == 0) {
        was_dropped_ = !answer_.has_begun();
        return Status(Code::transport, "the process there closes the connection");
      }
      DABKE_ASSIGN_OR_RETURN(const auto progress,
                             answer_.append({chunk.data(), static_cast<std::size_t>(got)}));
      if (progress != HttpAnswer::Progress::complete) continue;
      DABKE_ASSIGN_OR_RETURN(const bool genuine, is_genuine(secret, nonce_, answer_));
      if (genuine) return true;
      return Status(Code::transport, "the store of another job answers there");
    }
  }

  const StoreAddress& address_;
  const std::string nonce_;
  std::string unsent_;
  Fd fd_;
  HttpAnswer answer_;
  bool has_answered_ = false, was_dropped_ = false;
  Status trouble_;
};

Result<std::vector<Trial>> begin(const std::vector<StoreAddress>& addresses, const StoreSecret& secret) {
  std::array<std::byte, 16> client{};
  DABKE_RETURN_IF_ERROR(random_bytes(client));
  std::vector<Trial> trials;
  for (const StoreAddress& each : addresses) {
    // Two addresses may lead to one store, which takes a nonce once.
    std::string nonce = fmt::format("{}-{}", to_hex(client), trials.size() + 1);
    DABKE_ASSIGN_OR_RETURN(std::string request,
                           store_request(secret, each.authority, nonce, "GET",
                                         fmt::format("{}network", protocol::kValuePath), ""));
    trials.emplace_back(each, std::move(nonce), std::move(request));
  }
  return trials;
}

/// The likeliest address that has answered.
const Trial* best_of(const std::vector<Trial>& trials) {
  const auto best = std::ranges::find_if(trials, &Trial::has_answered);
  return best == trials.end() ? nullptr : &*best;
}

/// True if an address that is likelier than `than` (null: any address) may still answer.
bool may_come(const std::vector<Trial>& trials, const Trial* than) {
  return std::ranges::any_of(
      trials, [&](const Trial& each) { return each.is_under_way() && (than == nullptr || &each < than); });
}

/// Waits until the likeliest address that will answer has answered.
Status carry_out(std::vector<Trial>& trials, const StoreSecret& secret, TimePoint until) {
  for (bool has_found = false;;) {
    const Trial* const best = best_of(trials);
    if (best != nullptr && !has_found) until = std::min(until, Clock::now() + kGrace);
    has_found = best != nullptr;
    if (!may_come(trials, best) || Clock::now() >= until) return {};
    std::vector<pollfd> entries;
    for (const Trial& each : trials) entries.push_back(each.poll_entry());
    if (::poll(entries.data(), entries.size(), poll_timeout_ms(until)) < 0 && errno != EINTR)
      return system_error("poll", errno);
    for (std::size_t i = 0; i < trials.size(); ++i) {
      if (trials[i].is_under_way() && entries[i].revents != 0) trials[i].advance(secret);
    }
  }
}

Status nowhere(const std::vector<Trial>& trials) {
  std::vector<std::string> troubles;
  for (const Trial& each : trials) troubles.push_back(each.trouble());
  return {Code::transport,
          fmt::format("the rendezvous store of rank 0 cannot be reached from this host at any of its "
                      "addresses: {}. Check the network and firewalls between them, or name a network that "
                      "all hosts share with DABKE_NETWORK_INTERFACE",
                      fmt::join(troubles, ", "))};
}

}  // namespace

Result<std::vector<StoreAddress>> store_addresses(const std::string& url) {
  std::string_view rest = url;
  if (rest.starts_with(kScheme)) {
    rest.remove_prefix(kScheme.size());
  } else {
    rest = "";  // resolve() refuses this
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);
  std::vector<StoreAddress> addresses;
  for (;;) {
    const auto comma = rest.find(',');
    DABKE_ASSIGN_OR_RETURN(StoreAddress address, resolve(rest.substr(0, comma), url));
    addresses.push_back(std::move(address));
    if (comma == std::string_view::npos) return addresses;
    rest.remove_prefix(comma + 1);
  }
}

Result<StoreAddress> find_store(const std::vector<StoreAddress>& addresses, const StoreSecret& secret,
                                TimePoint deadline) {
  for (;;) {
    DABKE_ASSIGN_OR_RETURN(std::vector<Trial> trials, begin(addresses, secret));
    DABKE_RETURN_IF_ERROR(carry_out(trials, secret, deadline));
    if (const Trial* const best = best_of(trials)) return best->address();
    const bool may_go_on =
        std::ranges::any_of(trials, &Trial::was_dropped) && Clock::now() + kAgain < deadline;
    if (!may_go_on) return nowhere(trials);
    std::this_thread::sleep_for(kAgain);
  }
}

}  // namespace dabke::store

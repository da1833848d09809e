#include "runtime/transport/link_setup.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/transport/handshake.h"
#include "runtime/transport/tcp_link.h"

namespace dabke {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstRetry = 20ms;
constexpr Duration kLastRetry = 1s;
constexpr std::uint64_t kListener = 0;  // in epoll; every connection has a number of its own from 1 on

class Setup {
 public:
  explicit Setup(const LinkSetup& given) : given_(given) {}
  Result<std::vector<std::unique_ptr<Link>>> run();

 private:
  /// What is known of one neighbour.
  struct Neighbour {
    Rank rank;
    std::unique_ptr<Link> link;
    std::optional<SocketAddress> address;  // known once a lower rank published it
    std::uint64_t attempt = 0;             // the connection being tried
    TimePoint retry_at{};
    Duration retry_after = kFirstRetry;
    std::string trouble;  // why the last attempt came to nothing
  };
  /// A connection whose handshake is under way.
  struct Connection {
    GuardedFd fd;
    Handshake handshake;
    Neighbour* connects_to;  // null: we accepted it
    SocketAddress remote;
    TimePoint deadline;
    bool established = false;
    std::uint32_t events = 0;  // that epoll watches
  };

  Status prepare();
  Status listen();
  Status look_up_addresses();
  Status start_connections(TimePoint now);
  Status wait_for_events();
  Status accept_clients();
  Status serve(std::uint64_t number);
  Status converse(Connection& connection);
  Status watch(Connection& connection, std::uint64_t number);
  Status finish(std::uint64_t number);
  Status give_up(std::uint64_t number, const Status& why);
  void drop_overdue(TimePoint now);
  TimePoint next_event(TimePoint now) const;
  Status missing_ranks() const;
  Neighbour* neighbour(Rank rank);
  bool may_connect(Rank rank);
  std::size_t open_links() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(neighbours_, [](const auto& n) { return n.link != nullptr; }));
  }

  const LinkSetup& given_;
  Handshake::Self self_;
  std::vector<Neighbour> neighbours_;  // by rank
  GuardedFd epoll_;
  GuardedFd listener_;
  std::map<std::uint64_t, Connection> connections_;
  std::uint64_t last_number_ = kListener;
  Duration lookup_slice_ = 20ms;
  std::vector<std::string> refused_;  // the first few clients that were turned away
};

Result<std::vector<std::unique_ptr<Link>>> Setup::run() {
  DABKE_CHECK(prepare());
  while (open_links() < neighbours_.size()) {
    const auto now = Clock::now();
    if (now >= given_.deadline) return missing_ranks();
    DABKE_CHECK(look_up_addresses());
    DABKE_CHECK(start_connections(Clock::now()));
    DABKE_CHECK(wait_for_events());
    drop_overdue(Clock::now());
  }
  std::vector<std::unique_ptr<Link>> links;
  for (const Rank rank : given_.neighbours) links.push_back(std::move(neighbour(rank)->link));
  return links;
}

Status Setup::prepare() {
  for (const Rank rank : given_.neighbours) neighbours_.push_back({.rank = rank});
  std::ranges::sort(neighbours_, {}, &Neighbour::rank);
  if (neighbours_.empty()) return {};
  const World& world = given_.world;
  self_ = {world.job_id, world.job_key, world.epoch, world.rank, given_.self};
  epoll_ = GuardedFd(Fd(::epoll_create1(EPOLL_CLOEXEC)), given_.guard);
  if (!epoll_) return system_error("epoll_create1", errno);
  return neighbours_.back().rank > world.rank ? listen() : Status();
}

Status Setup::listen() {
  DABKE_ASSIGN(Fd fd, tcp_listen(given_.listen_at));
  listener_ = GuardedFd(std::move(fd), given_.guard);
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kListener}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event) != 0)
    return system_error("epoll_ctl", errno);
  DABKE_ASSIGN(const SocketAddress bound, SocketAddress::local_of(listener_.get()));
  return given_.store->set(fmt::format("{}/{}", given_.prefix, given_.world.rank), bound.to_string());
}

/// Asks the store for the next address that is not known yet, for a short while each time, so that ranks
/// which come in another order are served meanwhile. The while grows: a rank that is not there must not make
/// all others poll.
Status Setup::look_up_addresses() {
  const auto unknown = [&](const Neighbour& n) { return n.rank < given_.world.rank && !n.address; };
  const auto now = Clock::now();
  const bool only_lookups = connections_.empty() && !listener_;
  TimePoint until = std::min(given_.deadline, now + lookup_slice_);
  if (only_lookups && std::ranges::count_if(neighbours_, unknown) == 1) until = given_.deadline;
  for (Neighbour& n : neighbours_) {
    if (!unknown(n)) continue;
    auto found = given_.store->get(fmt::format("{}/{}", given_.prefix, n.rank), until);
    if (!found.is_ok() && found.status().code() != Code::timeout) return found.status();
    until = now;  // the rest without waiting
    if (!found.is_ok()) continue;
    DABKE_ASSIGN(n.address, SocketAddress::parse(*found));
    lookup_slice_ = 20ms;
  }
  if (std::ranges::any_of(neighbours_, unknown)) lookup_slice_ = std::min(2 * lookup_slice_, Duration(500ms));
  return {};
}

Status Setup::start_connections(TimePoint now) {
  for (Neighbour& n : neighbours_) {
    if (!n.address || n.link || n.attempt != 0 || n.retry_at > now) continue;
    n.retry_at = now + n.retry_after;
    n.retry_after = std::min(2 * n.retry_after, kLastRetry);
    auto fd = tcp_connect(*n.address);
    if (!fd.is_ok()) {
      n.trouble = fd.status().message();
      continue;
    }
    DABKE_ASSIGN(Handshake handshake, Handshake::connect(self_, n.rank));
    n.attempt = ++last_number_;
    Connection connection{GuardedFd(fd.take(), given_.guard), std::move(handshake), &n, *n.address,
                          given_.deadline};
    auto& stored = connections_.emplace(n.attempt, std::move(connection)).first->second;
    DABKE_CHECK(watch(stored, n.attempt));
  }
  return {};
}

Status Setup::wait_for_events() {
  const auto now = Clock::now();
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 poll_timeout_ms(next_event(now), now));
  if (count < 0 && errno != EINTR) return system_error("epoll_wait", errno);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t number = events[static_cast<std::size_t>(i)].data.u64;
    DABKE_CHECK(number == kListener ? accept_clients() : serve(number));
  }
  return {};
}

TimePoint Setup::next_event(TimePoint now) const {
  TimePoint next = given_.deadline;
  for (const Neighbour& n : neighbours_) {
    if (n.rank < given_.world.rank && !n.address) return now;  // the waiting is done in the store
    if (n.address && !n.link && n.attempt == 0) next = std::min(next, n.retry_at);
  }
  for (const auto& [number, connection] : connections_) next = std::min(next, connection.deadline);
  return next;
}

Status Setup::accept_clients() {
  // More than this are not ranks of ours; the oldest stranger makes room, and a rank that loses its turn
  // comes again.
  const std::size_t most = 2 * neighbours_.size() + 64;
  while (true) {
    DABKE_ASSIGN(Fd fd, tcp_accept(listener_.get()));
    if (!fd) return {};
    const auto accepted = [](const auto& entry) { return entry.second.connects_to == nullptr; };
    if (connections_.size() >= most) {
      const auto oldest = std::ranges::find_if(connections_, accepted);
      if (oldest != connections_.end()) connections_.erase(oldest);
    }
    auto remote = SocketAddress::remote_of(fd.get());
    if (!remote.is_ok()) continue;  // gone already
    DABKE_ASSIGN(Handshake handshake,
                 Handshake::accept(self_, [this](Rank rank) { return may_connect(rank); }));
    const auto deadline = std::min(given_.deadline, Clock::now() + given_.client_patience);
    Connection connection{
        GuardedFd(std::move(fd), given_.guard), std::move(handshake), nullptr, *remote, deadline, true};
    auto& stored = connections_.emplace(++last_number_, std::move(connection)).first->second;
    DABKE_CHECK(watch(stored, last_number_));
  }
}

Status Setup::serve(std::uint64_t number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return {};
  Connection& connection = found->second;
  if (!connection.established) {
    if (auto status = tcp_connected(connection.fd.get()); !status.is_ok()) return give_up(number, status);
    // A port of our own may be picked as the source of a connection to it while nobody listens there.
    const auto local = SocketAddress::local_of(connection.fd.get());
    if (local.is_ok() && local->to_string() == connection.remote.to_string()) {
      return give_up(number, Status(Code::transport, "nobody listens there"));
    }
    connection.established = true;
  }
  if (auto status = converse(connection); !status.is_ok()) return give_up(number, status);
  if (connection.handshake.done() && connection.handshake.outgoing().empty()) return finish(number);
  return watch(connection, number);
}

/// Sends and receives what can be without waiting. After a refusal it is sent, and what the client still
/// sends is thrown away until it closes: closing first would destroy the refusal on its way.
Status Setup::converse(Connection& connection) {
  Handshake& handshake = connection.handshake;
  for (int turns = 0; turns < 64; ++turns) {  // then the others, should a client never stop sending
    if (const auto out = handshake.outgoing(); !out.empty()) {
      const ssize_t sent = ::send(connection.fd.get(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return system_error("the connection broke", errno);
      if (sent <= 0) return {};
      handshake.sent(static_cast<std::size_t>(sent));
      if (handshake.failed() && handshake.outgoing().empty()) ::shutdown(connection.fd.get(), SHUT_WR);
      continue;
    }
    if (handshake.done()) return {};
    std::array<std::byte, 512> bytes;
    const std::size_t most = handshake.failed() ? bytes.size() : std::min(handshake.wanted(), bytes.size());
    const ssize_t got = ::recv(connection.fd.get(), bytes.data(), most, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    if (got < 0) return system_error("the connection broke", errno);
    if (got == 0) return {Code::transport, "it closed the connection in the middle of the handshake"};
    if (handshake.failed()) continue;
    const Status status = handshake.receive(std::span(bytes).first(static_cast<std::size_t>(got)));
    if (status.is_ok()) continue;
    if (connection.connects_to != nullptr || handshake.outgoing().empty()) return status;
    const std::string text = fmt::format("{}: {}", connection.remote.to_string(), status.message());
    given_.log.warning("rank {} refused a link from {}", given_.world.rank, text);
    if (refused_.size() < 4) refused_.push_back(text);
    connection.deadline = std::min(connection.deadline, Clock::now() + 1s);
  }
  return {};
}

Status Setup::watch(Connection& connection, std::uint64_t number) {
  const bool writes = !connection.established || !connection.handshake.outgoing().empty();
  const std::uint32_t wanted = writes ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (connection.events == wanted) return {};
  epoll_event event{.events = wanted, .data = {.u64 = number}};
  const int action = connection.events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (::epoll_ctl(epoll_.get(), action, connection.fd.get(), &event) != 0)
    return system_error("epoll_ctl", errno);
  connection.events = wanted;
  return {};
}

/// The handshake is done: the connection becomes the neighbour's link.
Status Setup::finish(std::uint64_t number) {
  Connection connection = std::move(connections_.extract(number).mapped());
  Neighbour& n = *neighbour(connection.handshake.peer_rank());
  if (n.link) return {};  // two clients proved to be the same rank at the same moment; the first stays
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.fd.get(), nullptr) != 0)
    return system_error("epoll_ctl", errno);
  LinkPeer peer{n.rank, connection.handshake.peer_process(), connection.remote.to_string()};
  n.link = std::make_unique<TcpLink>(std::move(connection.fd), std::move(peer), given_.peer_timeout);
  n.attempt = 0;
  return {};
}

/// The connection came to nothing. An error when trying again cannot help.
Status Setup::give_up(std::uint64_t number, const Status& why) {
  const auto found = connections_.find(number);
  Neighbour* const n = found->second.connects_to;
  const bool final = found->second.handshake.failed();
  const std::string remote = found->second.remote.to_string();
  connections_.erase(found);
  if (n == nullptr) {
    given_.log.debug("rank {} dropped a client at {}: {}", given_.world.rank, remote, why.message());
    return {};
  }
  n->attempt = 0;
  n->trouble = fmt::format("{}: {}", remote, why.message());
  if (!final) return {};
  return {why.code(),
          fmt::format("rank {} cannot link to rank {} on {} at {}: {}", given_.world.rank, n->rank,
                      given_.world.hosts.at(static_cast<std::size_t>(n->rank)), remote, why.message())};
}

void Setup::drop_overdue(TimePoint now) {
  for (auto entry = connections_.begin(); entry != connections_.end();) {
    const Connection& connection = entry->second;
    if (connection.deadline > now || connection.connects_to != nullptr) {
      ++entry;
      continue;
    }
    if (!connection.handshake.failed()) {
      const std::string text =
          fmt::format("{}: it connected and did not prove itself in time", connection.remote.to_string());
      given_.log.warning("rank {} dropped a client at {}", given_.world.rank, text);
      if (refused_.size() < 4) refused_.push_back(text);
    }
    entry = connections_.erase(entry);
  }
}

Status Setup::missing_ranks() const {
  constexpr std::size_t kMostNamed = 8;
  std::vector<std::string> named;
  std::size_t missing = 0;
  for (const Neighbour& n : neighbours_) {
    if (n.link || ++missing > kMostNamed) continue;
    std::string what = "it has not connected";
    if (n.rank < given_.world.rank) what = n.address ? n.trouble : "it has left no address in the store";
    if (what.empty()) what = fmt::format("{} does not answer", n.address->to_string());
    named.push_back(fmt::format("rank {} on {} ({})", n.rank,
                                given_.world.hosts.at(static_cast<std::size_t>(n.rank)), what));
  }
  std::string text = fmt::format("rank {} has no link to {}", given_.world.rank, fmt::join(named, ", "));
  if (missing > named.size()) text += fmt::format(" and {} more", missing - named.size());
  if (!refused_.empty()) text += fmt::format("; refused were {}", fmt::join(refused_, ", "));
  return {Code::timeout,
          text +
              "; see whether these ranks run, whether a firewall lies between the hosts, and whether "
              "DABKE_NETWORK_INTERFACE names the network that links them; DABKE_START_TIMEOUT_SECONDS gives "
              "them longer"};
}

Setup::Neighbour* Setup::neighbour(Rank rank) {
  const auto found = std::ranges::lower_bound(neighbours_, rank, {}, &Neighbour::rank);
  return found != neighbours_.end() && found->rank == rank ? &*found : nullptr;
}

bool Setup::may_connect(Rank rank) {
  const Neighbour* n = neighbour(rank);
  return n != nullptr && !n->link && rank > given_.world.rank;
}

}  // namespace

Result<std::vector<std::unique_ptr<Link>>> open_tcp_links(const LinkSetup& setup) {
  return Setup(setup).run();
}

}  // namespace dabke

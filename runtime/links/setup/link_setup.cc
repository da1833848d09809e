#include "runtime/links/setup/link_setup.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "runtime/links/handshake.h"
#include "runtime/links/handshake_io.h"
#include "runtime/links/setup/link_listener.h"
#include "runtime/links/setup/neighbours.h"
#include "runtime/links/shm/local_socket.h"
#include "runtime/links/shm/shm_agreement.h"
#include "runtime/links/tcp_link.h"

namespace dabke::links {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLastRetry = 1s;
constexpr Duration kAbortCheck = 100ms;
constexpr Duration kTroubleCheck = 250ms;
// The numbers of the listeners in epoll. Connections have numbers from 2 on.
constexpr std::uint64_t kListener = 0;
constexpr std::uint64_t kLocalListener = 1;
// The number of a finished link is this plus its rank.
constexpr std::uint64_t kLinked = std::uint64_t{1} << 63;

class Setup {
 public:
  explicit Setup(const LinkSetup& given) : given_(given), neighbours_(given), listener_(given) {}
  Result<std::vector<std::unique_ptr<Link>>> run();

 private:
  /// A connection whose handshake is under way.
  struct Connection {
    GuardedFd fd;
    Handshake handshake;
    Neighbour* connects_to;  // null: accepted by this rank
    std::string remote;      // for messages
    TimePoint deadline;
    bool established = false;
    std::uint32_t events = 0;                         // those that epoll watches
    std::optional<shm::ShmAgreement> agreement = {};  // on a local socket only
  };

  Status link_all();
  Status prepare();
  Status start_connections(TimePoint now);
  Status start_connection(Neighbour& n, Fd fd, bool local);
  Status wait_for_events();
  Status accept_clients(int listener, bool local);
  Status serve(std::uint64_t number);
  Status converse(Connection& connection);
  Status watch(Connection& connection, std::uint64_t number);
  Status agree(Connection& connection, std::uint64_t number);
  Status finish(std::uint64_t number);
  Status give_up(std::uint64_t number, const Status& why);
  Status drop_overdue(TimePoint now);
  TimePoint next_event(TimePoint now) const;
  Status watch_link(const Neighbour& n);
  Status link_ended(Neighbour& n);
  Status watch_listener(int listener, std::uint64_t number);

  const LinkSetup& given_;
  Handshake::Self self_;
  Neighbours neighbours_;
  LinkListener listener_;
  GuardedFd epoll_;
  std::map<std::uint64_t, Connection> connections_;
  std::uint64_t last_number_ = kLocalListener;
  std::vector<std::string> refused_;  // the first few clients that were refused
};

Result<std::vector<std::unique_ptr<Link>>> Setup::run() {
  if (const Status linked = link_all(); !linked.is_ok()) {
    if (given_.last_words) neighbours_.send_last_words(linked);
    return linked;
  }
  std::vector<std::unique_ptr<Link>> links;
  for (const Rank rank : given_.neighbours) links.push_back(std::move(neighbours_.find(rank)->link));
  return links;
}

Status Setup::link_all() {
  DABKE_RETURN_IF_ERROR(prepare());
  while (!neighbours_.are_linked()) {
    const auto now = Clock::now();
    if (now >= given_.deadline) return neighbours_.missing_ranks(refused_);
    DABKE_RETURN_IF_ERROR(neighbours_.check_trouble());
    DABKE_RETURN_IF_ERROR(neighbours_.look_up_addresses(connections_.empty() && !listener_.is_open()));
    DABKE_RETURN_IF_ERROR(start_connections(Clock::now()));
    DABKE_RETURN_IF_ERROR(wait_for_events());
    DABKE_RETURN_IF_ERROR(drop_overdue(Clock::now()));
  }
  return {};
}

Status Setup::prepare() {
  if (neighbours_.size() == 0) return {};
  const World& world = given_.world;
  self_ = {world.job_id, world.job_key, world.epoch, world.rank, given_.self};
  epoll_ = GuardedFd(Fd(::epoll_create1(EPOLL_CLOEXEC)), given_.guard);
  if (!epoll_) return system_error("epoll_create1", errno);
  if (!neighbours_.any_connects()) return {};
  DABKE_RETURN_IF_ERROR(listener_.listen(neighbours_.begin()->tries_local));
  DABKE_RETURN_IF_ERROR(watch_listener(listener_.tcp(), kListener));
  return listener_.local() < 0 ? Status() : watch_listener(listener_.local(), kLocalListener);
}

Status Setup::watch_listener(int listener, std::uint64_t number) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = number}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener, &event) == 0) return {};
  return system_error("epoll_ctl", errno);
}

Status Setup::start_connections(TimePoint now) {
  for (Neighbour& n : neighbours_) {
    if (!n.address || n.link || n.attempt != 0 || n.retry_at > now) continue;
    n.retry_at = now + n.retry_after;
    n.retry_after = std::min(2 * n.retry_after, kLastRetry);
    if (std::exchange(n.tries_local, false)) {
      DABKE_ASSIGN_OR_RETURN(const std::string name, local_name(given_, n.rank, n.address->to_string()));
      if (auto fd = shm::local_connect(name); fd.is_ok()) {
        DABKE_RETURN_IF_ERROR(start_connection(n, fd.take(), true));
        continue;
      }
    }
    auto fd = tcp_connect(*n.address);
    if (!fd.is_ok()) {
      n.trouble = fd.status().message();
      continue;
    }
    DABKE_RETURN_IF_ERROR(start_connection(n, fd.take(), false));
  }
  return {};
}

Status Setup::start_connection(Neighbour& n, Fd fd, bool local) {
  if (local) {
    if (auto status = shm::check_same_user(fd.get()); !status.is_ok()) {
      n.no_local = status.message();
      n.retry_at = {};
      return {};
    }
  }
  DABKE_ASSIGN_OR_RETURN(Handshake handshake, Handshake::connect(self_, n.rank));
  n.attempt = ++last_number_;
  // Over TCP an answer may be lost, or another process may listen there by now. A local socket loses nothing,
  // and giving it up too early would cost the shared memory.
  const TimePoint deadline =
      local ? given_.deadline : std::min(given_.deadline, Clock::now() + given_.client_patience);
  Connection connection{GuardedFd(std::move(fd), given_.guard),
                        std::move(handshake),
                        &n,
                        n.address->to_string(),
                        deadline,
                        local};
  if (local) connection.agreement.emplace(true, given_.guard);
  auto& stored = connections_.emplace(n.attempt, std::move(connection)).first->second;
  return watch(stored, n.attempt);
}

Status Setup::wait_for_events() {
  const auto now = Clock::now();
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 poll_timeout_ms(next_event(now), now));
  if (count < 0 && errno != EINTR) return system_error("epoll_wait", errno);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t number = events[static_cast<std::size_t>(i)].data.u64;
    if (number == kListener) {
      DABKE_RETURN_IF_ERROR(accept_clients(listener_.tcp(), false));
    } else if (number == kLocalListener) {
      DABKE_RETURN_IF_ERROR(accept_clients(listener_.local(), true));
    } else if ((number & kLinked) != 0) {
      DABKE_RETURN_IF_ERROR(link_ended(*neighbours_.find(static_cast<Rank>(number & ~kLinked))));
    } else {
      DABKE_RETURN_IF_ERROR(serve(number));
    }
  }
  return {};
}

TimePoint Setup::next_event(TimePoint now) const {
  if (neighbours_.awaits_address()) return now;  // the store does the waiting
  TimePoint next = std::min(given_.deadline, now + (given_.aborted ? kAbortCheck : kTroubleCheck));
  for (const Neighbour& n : neighbours_) {
    if (n.address && !n.link && n.attempt == 0) next = std::min(next, n.retry_at);
  }
  for (const auto& [number, connection] : connections_) next = std::min(next, connection.deadline);
  return next;
}

Status Setup::accept_clients(int listener, bool local) {
  // More clients than this are not ranks of ours. The oldest one makes room, and a rank that loses its turn
  // connects again.
  const std::size_t most = 2 * neighbours_.size() + 64;
  while (true) {
    DABKE_ASSIGN_OR_RETURN(Fd fd, tcp_accept(listener));
    if (!fd) return {};
    const auto accepted = [](const auto& entry) { return entry.second.connects_to == nullptr; };
    if (connections_.size() >= most) {
      const auto oldest = std::ranges::find_if(connections_, accepted);
      if (oldest != connections_.end()) connections_.erase(oldest);
    }
    std::string remote = "a local socket";
    if (local) {
      if (auto status = shm::check_same_user(fd.get()); !status.is_ok()) {
        given_.log.warning("rank {} dropped a local client: {}", given_.world.rank, status.message());
        continue;
      }
    } else {
      auto address = SocketAddress::remote_of(fd.get());
      if (!address.is_ok()) continue;  // gone already
      remote = address->to_string();
    }
    DABKE_ASSIGN_OR_RETURN(Handshake handshake, Handshake::accept(self_, [this](Rank rank) {
                             return neighbours_.may_connect(rank);
                           }));
    const auto deadline = std::min(given_.deadline, Clock::now() + given_.client_patience);
    Connection connection{GuardedFd(std::move(fd), given_.guard),
                          std::move(handshake),
                          nullptr,
                          std::move(remote),
                          deadline,
                          true};
    if (local) connection.agreement.emplace(false, given_.guard);
    auto& stored = connections_.emplace(++last_number_, std::move(connection)).first->second;
    DABKE_RETURN_IF_ERROR(watch(stored, last_number_));
  }
}

Status Setup::serve(std::uint64_t number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return {};
  Connection& connection = found->second;
  if (!connection.established) {
    if (auto status = tcp_connected(connection.fd.get()); !status.is_ok()) return give_up(number, status);
    // While nobody listens there, the kernel may pick that very port as the source, and connect the socket to
    // itself.
    const auto local = SocketAddress::local_of(connection.fd.get());
    if (local.is_ok() && local->to_string() == connection.remote) {
      return give_up(number, Status(Code::transport, "nothing listens there"));
    }
    connection.established = true;
  }
  if (auto status = converse(connection); !status.is_ok()) return give_up(number, status);
  if (connection.handshake.done() && connection.handshake.outgoing().empty())
    return connection.agreement ? agree(connection, number) : finish(number);
  return watch(connection, number);
}

Status Setup::converse(Connection& connection) {
  const auto result = converse_over(connection.fd.get(), connection.handshake);
  if (result.refused.is_ok()) return result.ended;
  const std::string text = fmt::format("{}: {}", connection.remote, result.refused.message());
  given_.log.warning("rank {} refused a link from {}", given_.world.rank, text);
  if (refused_.size() < 4) refused_.push_back(text);
  connection.deadline = std::min(connection.deadline, Clock::now() + 1s);
  return result.ended;
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

/// The handshake on a local socket is done; agrees on the memory.
Status Setup::agree(Connection& connection, std::uint64_t number) {
  auto agreed = connection.agreement->advance(connection.fd.get());
  if (!agreed.is_ok()) return give_up(number, agreed.status());
  return *agreed ? finish(number) : watch(connection, number);
}

/// Makes the connection the neighbour's link.
Status Setup::finish(std::uint64_t number) {
  Connection connection = std::move(connections_.extract(number).mapped());
  Neighbour& n = *neighbours_.find(connection.handshake.peer_rank());
  if (n.link) return {};  // two clients proved to be the same rank at the same moment; the first stays
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.fd.get(), nullptr) != 0)
    return system_error("epoll_ctl", errno);
  LinkPeer peer{n.rank, connection.handshake.peer_process(), connection.remote};
  n.attempt = 0;
  if (connection.agreement) {
    peer.address = "shared memory";
    DABKE_ASSIGN_OR_RETURN(n.link,
                           connection.agreement->take_link(std::move(connection.fd), std::move(peer)));
    return watch_link(n);
  }
  DABKE_RETURN_IF_ERROR(neighbours_.check_without_shared_memory(n, peer));
  n.link = std::make_unique<TcpLink>(std::move(connection.fd), std::move(peer), given_.peer_timeout);
  return watch_link(n);
}

/// Watches only for the link's end, because messages are for the link's later owner. The neighbour may have
/// finished its setup.
Status Setup::watch_link(const Neighbour& n) {
  if (given_.aborted) return {};
  epoll_event event{.events = EPOLLRDHUP, .data = {.u64 = kLinked | static_cast<std::uint64_t>(n.rank)}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, n.link->descriptor(), &event) == 0) return {};
  return system_error("epoll_ctl", errno);
}

/// The end of a link may be that of its rank, or only of a part of the job, which the store shows. Messages
/// that came over the link stay there for its later owner.
Status Setup::link_ended(Neighbour& n) {
  n.has_ended = true;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, n.link->descriptor(), nullptr) == 0) return {};
  return system_error("epoll_ctl", errno);
}

/// Drops a connection that has failed. Returns an error if another attempt cannot help.
Status Setup::give_up(std::uint64_t number, const Status& why) {
  const auto found = connections_.find(number);
  Neighbour* const n = found->second.connects_to;
  const bool final = found->second.handshake.failed();
  const std::string remote = found->second.remote;
  const bool local = found->second.agreement.has_value();
  connections_.erase(found);
  if (n != nullptr && local) {  // by TCP then, at once
    n->attempt = 0;
    n->retry_at = {};
    n->no_local = why.message();
    return {};
  }
  if (n == nullptr && local)
    given_.log.info("rank {}: no shared memory: {}", given_.world.rank, why.message());
  if (n == nullptr) {
    given_.log.debug("rank {} dropped a client at {}: {}", given_.world.rank, remote, why.message());
    return {};
  }
  n->attempt = 0;
  n->trouble = fmt::format("{}: {}", remote, why.message());
  if (!final) return {};
  return {why.code(), fmt::format("rank {} cannot link to {} at {}: {}", given_.world.rank,
                                  given_.world.name_of(n->rank), remote, why.message())};
}

Status Setup::drop_overdue(TimePoint now) {
  for (auto entry = connections_.begin(); entry != connections_.end();) {
    const Connection& connection = entry->second;
    if (connection.deadline > now) {
      ++entry;
      continue;
    }
    if (connection.connects_to != nullptr) {
      const std::uint64_t number = (entry++)->first;
      if (connection.deadline >= given_.deadline) continue;  // reported as a missing rank
      const double patience = std::chrono::duration<double>(given_.client_patience).count();
      DABKE_RETURN_IF_ERROR(
          give_up(number, {Code::timeout, fmt::format("no answer within {:.3g} s", patience)}));
      continue;
    }
    if (!connection.handshake.failed()) {
      const std::string text =
          fmt::format("{}: it connected but did not authenticate in time", connection.remote);
      given_.log.warning("rank {} dropped a client at {}", given_.world.rank, text);
      if (refused_.size() < 4) refused_.push_back(text);
    }
    entry = connections_.erase(entry);
  }
  return {};
}

}  // namespace

Result<std::vector<std::unique_ptr<Link>>> open_links(const LinkSetup& setup) { return Setup(setup).run(); }

}  // namespace dabke::links

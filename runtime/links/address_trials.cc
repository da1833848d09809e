#include "runtime/links/address_trials.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <map>
#include <optional>

#include "runtime/base/threads/thread.h"
#include "runtime/links/handshake_io.h"
#include "runtime/links/tcp_link.h"

namespace dabke::links {
namespace {

using namespace std::chrono_literals;

/// The time for a client to prove itself, and the most clients that may do so at once.
constexpr Duration kClientPatience = 5s;
constexpr std::size_t kMostClients = 256;
/// The time for one attempt, and the pause before all addresses of a rank are tried again.
constexpr Duration kAttempt = 5s;
constexpr Duration kAgain = 200ms;
/// The extra time for late addresses: after the likeliest has answered, and after only another one has.
constexpr Duration kShortGrace = 100ms;
constexpr Duration kLongGrace = 1s;
/// The interval at which trouble is checked.
constexpr Duration kTroubleCheck = 250ms;

struct Talk {
  Fd fd;
  Handshake handshake;
  TimePoint deadline;

  short events() const {
    return static_cast<short>(handshake.outgoing().empty() ? POLLIN : POLLIN | POLLOUT);
  }
};

/// The clients that try this host.
class Clients {
 public:
  explicit Clients(const Handshake::Self& self) : self_(self) {}

  void add_poll_entries(std::vector<pollfd>& entries) const {
    for (const Talk& talk : talks_) entries.push_back({talk.fd.get(), talk.events(), 0});
  }
  TimePoint deadline() const {
    TimePoint next = kNever;
    for (const Talk& talk : talks_) next = std::min(next, talk.deadline);
    return next;
  }
  /// If there are too many clients, drops the oldest.
  void accept(int listener) {
    for (auto fd = tcp_accept(listener); fd.is_ok() && *fd; fd = tcp_accept(listener)) {
      auto handshake = Handshake::accept(self_, [](Rank) { return true; });
      if (!handshake.is_ok()) continue;
      if (talks_.size() == kMostClients) talks_.pop_front();
      talks_.push_back({fd.take(), handshake.take(), Clock::now() + kClientPatience});
    }
  }
  void turn() {
    const TimePoint now = Clock::now();
    talks_.remove_if([&](Talk& talk) {
      const bool is_usable = converse_over(talk.fd.get(), talk.handshake).ended.is_ok();
      const bool is_said = talk.handshake.done() && talk.handshake.outgoing().empty();
      return !is_usable || is_said || now >= talk.deadline;
    });
  }

 private:
  const Handshake::Self& self_;
  std::list<Talk> talks_;
};

class Trials {
 public:
  Trials(const Handshake::Self& self, std::span<Trial> trials, TimePoint deadline,
         const std::function<Status()>& trouble)
      : self_(self), trials_(trials), talks_(trials.size()), deadline_(deadline), trouble_(trouble) {
    for (const Trial& trial : trials) hosts_.try_emplace(trial.rank);
  }

  Status run() {
    for (std::size_t i = 0; i < trials_.size(); ++i) DABKE_RETURN_IF_ERROR(begin(i));
    while (Clock::now() < deadline_ && !is_over()) {
      DABKE_RETURN_IF_ERROR(turn());
      DABKE_RETURN_IF_ERROR(trouble_());
    }
    return {};
  }

 private:
  struct Host {
    TimePoint until = kNever;     // late addresses may answer until then
    TimePoint again_at = kNever;  // set if no address was reached and none is under way
  };

  Status begin(std::size_t i);
  Status turn();
  void advance(std::size_t i);
  void end(std::size_t i, Trial::Outcome outcome, const std::string& trouble);
  bool is_likeliest(std::size_t i) const { return i == 0 || trials_[i - 1].rank != trials_[i].rank; }
  bool is_under_way(Rank rank) const {
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      if (talks_[i] && trials_[i].rank == rank) return true;
    }
    return false;
  }
  bool is_over() const {
    return std::ranges::all_of(hosts_, [&](const auto& row) {
      return row.second.until <= Clock::now() || (row.second.until != kNever && !is_under_way(row.first));
    });
  }
  TimePoint next_event() const;

  const Handshake::Self& self_;
  const std::span<Trial> trials_;
  std::vector<std::optional<Talk>> talks_;
  std::map<Rank, Host> hosts_;
  const TimePoint deadline_;
  const std::function<Status()>& trouble_;
};

Status Trials::begin(std::size_t i) {
  auto fd = tcp_connect(trials_[i].address);
  if (!fd.is_ok()) {
    end(i, Trial::Outcome::failed, fd.status().message());
    return {};
  }
  DABKE_ASSIGN_OR_RETURN(Handshake handshake, Handshake::connect(self_, trials_[i].rank));
  talks_[i] = Talk{fd.take(), std::move(handshake), Clock::now() + kAttempt};
  return {};
}

void Trials::end(std::size_t i, Trial::Outcome outcome, const std::string& trouble) {
  Trial& trial = trials_[i];
  talks_[i].reset();
  trial.outcome = outcome;
  trial.trouble = trouble;
  Host& host = hosts_[trial.rank];
  const TimePoint now = Clock::now();
  if (outcome == Trial::Outcome::reached)
    host.until = std::min(host.until, now + (is_likeliest(i) ? kShortGrace : kLongGrace));
  if (host.until == kNever && !is_under_way(trial.rank)) host.again_at = now + kAgain;
}

TimePoint Trials::next_event() const {
  TimePoint next = std::min(deadline_, Clock::now() + kTroubleCheck);
  for (const auto& talk : talks_) {
    if (talk) next = std::min(next, talk->deadline);
  }
  for (const auto& [rank, host] : hosts_) {
    if (host.until > Clock::now()) next = std::min(next, host.until);
    next = std::min(next, host.again_at);
  }
  return next;
}

Status Trials::turn() {
  std::vector<pollfd> entries;
  for (const auto& talk : talks_)
    entries.push_back({talk ? talk->fd.get() : -1, talk ? talk->events() : short{}, 0});
  const TimePoint now = Clock::now();
  if (::poll(entries.data(), entries.size(), poll_timeout_ms(next_event(), now)) < 0 && errno != EINTR)
    return system_error("poll", errno);
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    if (talks_[i] && entries[i].revents != 0) advance(i);
    if (talks_[i] && Clock::now() >= talks_[i]->deadline) end(i, Trial::Outcome::none, "no answer");
  }
  for (auto& [rank, host] : hosts_) {
    if (Clock::now() < host.again_at) continue;
    host.again_at = kNever;
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      if (trials_[i].rank == rank) DABKE_RETURN_IF_ERROR(begin(i));
    }
  }
  return {};
}

void Trials::advance(std::size_t i) {
  Talk& talk = *talks_[i];
  if (const Status connected = tcp_connected(talk.fd.get()); !connected.is_ok())
    return end(i, Trial::Outcome::failed, connected.message());
  const HandshakeTurn turn = converse_over(talk.fd.get(), talk.handshake);
  if (!turn.ended.is_ok()) return end(i, Trial::Outcome::failed, turn.ended.message());
  if (talk.handshake.done() && talk.handshake.outgoing().empty()) end(i, Trial::Outcome::reached, "");
}

}  // namespace

Result<std::unique_ptr<TrialListener>> TrialListener::open(const Handshake::Self& self,
                                                           std::span<const SocketAddress> addresses) {
  std::unique_ptr<TrialListener> door(new TrialListener(self));
  door->end_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!door->end_) return system_error("eventfd", errno);
  Status last;
  for (const SocketAddress& address : addresses) {
    door->listens_at_.push_back(address.with_port(0));
    auto listener = tcp_listen(address);
    const auto bound = listener.is_ok() ? SocketAddress::local_of(listener->get())
                                        : Result<SocketAddress>(listener.status());
    last = bound.status();
    if (!last.is_ok()) continue;
    door->listens_at_.back() = *bound;
    door->listeners_.push_back(listener.take());
  }
  if (door->listeners_.empty()) return last;
  DABKE_ASSIGN_OR_RETURN(door->thread_,
                         start_thread("dabke-trials", [served = door.get()] { served->serve(); }));
  return door;
}

TrialListener::~TrialListener() {
  const std::uint64_t one = 1;
  if (thread_.joinable()) (void)!::write(end_.get(), &one, sizeof one);
}

void TrialListener::serve() {
  Clients clients(self_);
  for (;;) {
    std::vector<pollfd> entries{{end_.get(), POLLIN, 0}};
    for (const Fd& listener : listeners_) entries.push_back({listener.get(), POLLIN, 0});
    clients.add_poll_entries(entries);
    (void)::poll(entries.data(), entries.size(), poll_timeout_ms(clients.deadline()));
    if (entries[0].revents != 0) return;
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if (entries[i + 1].revents != 0) clients.accept(listeners_[i].get());
    }
    clients.turn();
  }
}

Status try_addresses(const Handshake::Self& self, std::span<Trial> trials, TimePoint deadline,
                     const std::function<Status()>& trouble) {
  return Trials(self, trials, deadline, trouble).run();
}

}  // namespace dabke::links

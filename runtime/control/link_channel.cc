#include "runtime/control/link_channel.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>

#include <fmt/format.h>

#include "runtime/control/link_ends.h"
#include "runtime/links/setup/link_setup.h"
#include "runtime/links/shm/waiting.h"
#include "runtime/negotiation/wire/wire.h"
#include "runtime/store/init_failure.h"

namespace dabke::control {
namespace {

using namespace std::chrono_literals;

// Limits for reading the link of a process that has ended: after the last bytes came, and in all. The kernel
// may still be moving what the process sent. A child that holds the link may write for ever.
constexpr Duration kLastWords = 200ms;
constexpr Duration kLastWordsInAll = 1s;
// However busy shared memory is, sockets, pidfds and timers are served once in this many calls.
constexpr int kMostPollsWithoutKernel = 32;

links::SharedMemory shared_memory_of(const Config& config) {
  switch (config.controller) {
    case Controller::automatic: return links::SharedMemory::where_possible;
    case Controller::shm: return links::SharedMemory::required;
    case Controller::tcp:
    case Controller::gloo: return links::SharedMemory::never;
    // The links of a job under MPI carry notices, as many as the negotiation has messages (mpi_channel.h).
    case Controller::mpi: return links::SharedMemory::where_possible;
  }
  return links::SharedMemory::where_possible;
}

// The tag of an epoll event: a peer's index, and which of its descriptors.
constexpr std::uint64_t kWakeTag = ~std::uint64_t{0};
constexpr std::uint64_t link_tag(std::uint64_t index) { return 2 * index; }
constexpr std::uint64_t process_tag(std::uint64_t index) { return 2 * index + 1; }

Status epoll_add(int epoll, int fd, std::uint64_t tag) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = tag}};
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return system_error("epoll_ctl", errno);
}

/// Hands a link's frames on as messages of its peer. Beats are not handed on.
class MessageSink final : public links::FrameSink {
 public:
  MessageSink(Rank peer, ClockComparison& clock, ControlSink& sink)
      : peer_(peer), clock_(clock), sink_(sink) {}
  void on_frame(std::span<const std::byte> frame) override {
    if (const auto beat = decode_beat(frame)) return clock_.take(*beat, Clock::now());
    delivered_ = true;
    sink_.on_message(peer_, frame);
  }
  bool delivered() const { return delivered_; }

 private:
  Rank peer_;
  ClockComparison& clock_;
  ControlSink& sink_;
  bool delivered_ = false;
};

/// The message to a peer that this rank is lost to the job, or has given up another rank, because of `why`.
std::vector<std::byte> words_of(const std::string& why) {
  std::vector<std::byte> words;
  dabke::wire::encode(wire::FailMessage{Code::peer_lost, why}, words);
  return words;
}

/// The status of a peer that was silent for so long that it is given up.
Status silence_of(const LinkNeighbour& peer, Duration patience) {
  return {Code::peer_lost,
          fmt::format("{}: nothing received for {} s ({}): the network between the hosts is cut, or its host "
                      "or process has stopped",
                      peer.name, std::chrono::duration<double>(patience).count(),
                      peer.has_spoken ? "DABKE_PEER_TIMEOUT_SECONDS"
                                      : "DABKE_START_TIMEOUT_SECONDS and DABKE_PEER_TIMEOUT_SECONDS")};
}

/// The reason why a peer whose process has ended is lost. `gloss` is what the end can mean.
std::string end_of_process(const LinkNeighbour& peer, std::string_view gloss) {
  return fmt::format("process {} of {} ended {}", peer.link->peer().process.pid, peer.name, gloss);
}

/// The message to the other ranks if this rank's set-up fails.
std::function<std::vector<std::byte>(const Status&)> last_words_of(const World& world) {
  return [&world](const Status& why) {
    return words_of(store::init_failure_of(world.name_of(world.rank), why).message());
  };
}

}  // namespace

Result<std::unique_ptr<ControlChannel>> LinkChannel::open(const World& world,
                                                          std::span<const Rank> neighbours,
                                                          const Config& config,
                                                          std::shared_ptr<store::Store> store,
                                                          ForkGuard& guard, Log log) {
  DABKE_ASSIGN_OR_RETURN(auto channel, open_as(links::identity_of_this_process(), world, neighbours, config,
                                               std::move(store), guard, std::move(log)));
  return std::unique_ptr<ControlChannel>(std::move(channel));
}

Result<std::unique_ptr<LinkChannel>> LinkChannel::open_as(
    const links::ProcessIdentity& self, const World& world, std::span<const Rank> neighbours,
    const Config& config, std::shared_ptr<store::Store> store, ForkGuard& guard, Log log) {
  std::unique_ptr<LinkChannel> channel(new LinkChannel(config, guard, log));
  DABKE_RETURN_IF_ERROR(channel->start());
  DABKE_ASSIGN_OR_RETURN(const links::SocketAddress address, links::listening_address(world));
  DABKE_ASSIGN_OR_RETURN(
      auto links,
      links::open_links({.world = world,
                         .neighbours = neighbours,
                         .listen_at = address,
                         .store = std::move(store),
                         .guard = guard,
                         .log = log,
                         .deadline = deadline_after(config.start_timeout),
                         .self = self,
                         .peer_timeout = seconds_to_duration(config.peer_timeout),
                         .shared_memory = shared_memory_of(config),
                         .last_words = channel->sends_failures_ ? last_words_of(world) : nullptr}));
  std::ranges::sort(links, {}, [](const auto& link) { return link->peer().rank; });
  for (auto& link : links) DABKE_RETURN_IF_ERROR(channel->add_peer(self, world, std::move(link)));
  if (channel->any_beats_) channel->next_beat_ = Clock::now() + channel->beat_;
  return channel;
}

std::string_view LinkChannel::name() const {
  if (shared_ == 0) return "tcp";
  return over_tcp_ == 0 ? "shm" : "shm+tcp";
}

Status LinkChannel::start() {
  epoll_ = GuardedFd(Fd(::epoll_create1(EPOLL_CLOEXEC)), guard_);
  if (!epoll_) return system_error("epoll_create1", errno);
  DABKE_RETURN_IF_ERROR(wake_.open(guard_));
  return epoll_add(epoll_.get(), wake_.descriptor(), kWakeTag);
}

Status LinkChannel::add_peer(const links::ProcessIdentity& self, const World& world,
                             std::unique_ptr<links::Link> link) {
  const std::uint64_t index = peers_.size();
  Peer& peer = peers_.emplace_back();
  peer.rank = link->peer().rank;
  peer.name = world.name_of(peer.rank);
  peer.link = std::move(link);
  ++(peer.link->is_shared_memory() ? shared_ : over_tcp_);
  peer.last_heard = Clock::now();
  DABKE_RETURN_IF_ERROR(epoll_add(epoll_.get(), peer.link->descriptor(), link_tag(index)));
  const links::ProcessIdentity& process = peer.link->peer().process;
  const bool can_watch = self.shares_pids_with(process);
  // Containers may share their process ids and have networks of their own, or the reverse. Then a process can
  // be watched, but the network to it may still end without notice.
  peer.beats = !can_watch || peer.link->crosses_network();
  any_beats_ = any_beats_ || peer.beats;
  // Ranks that are threads of one process end together.
  if (!can_watch || process.pid == self.pid) return {};
  return watch_process_of(peer, index);
}

int LinkChannel::process_of(Rank rank) const {
  const auto peer = std::ranges::find(peers_, rank, &Peer::rank);
  return peer == peers_.end() || peer->beats || !peer->link
             ? 0
             : static_cast<int>(peer->link->peer().process.pid);
}

std::optional<ClockOffset> LinkChannel::clock_of(Rank rank, TimePoint now) const {
  const auto peer = std::ranges::find(peers_, rank, &Peer::rank);
  return peer == peers_.end() ? std::nullopt : peer->clock.offset(now);
}

Status LinkChannel::watch_process_of(Peer& peer, std::uint64_t index) {
  auto watched = links::watch_process(peer.link->peer().process.pid);
  if (watched.is_ok()) {
    peer.process = GuardedFd(watched.take(), guard_);
    return epoll_add(epoll_.get(), peer.process.get(), process_tag(index));
  }
  if (watched.status().code() == Code::peer_lost) {
    on_process_ended(peer);
  } else {  // forbidden, or no descriptor left: the end of the link is noticed anyway
    log_.warning("cannot watch the process of {}: {}", peer.name, watched.status().message());
  }
  return {};
}

LinkChannel::Peer* LinkChannel::find(Rank rank) {
  const auto found = std::ranges::lower_bound(peers_, rank, {}, &Peer::rank);
  return found != peers_.end() && found->rank == rank ? &*found : nullptr;
}

void LinkChannel::send(Rank rank, std::span<const std::byte> message) {
  assert(!decode_beat(message) && "this message is a heartbeat");
  Peer* const peer = find(rank);
  assert(peer != nullptr && "messages can only be sent to neighbours");
  if (!peer->link || !peer->failure.is_ok()) return;
  const Status status = peer->link->send(message);
  if (!status.is_ok() && status.code() == Code::invalid_argument) {
    // The peer would wait for this message for ever, so the link cannot go on without it.
    peer->failure = status;
    failures_ = true;
    return;
  }
  write_interest(*peer);
}

/// Arms or disarms the wait for room to send. In shared memory prepare_to_sleep() does that.
void LinkChannel::write_interest(Peer& peer) {
  if (peer.link->is_shared_memory()) return;
  const bool wanted = peer.link->wants_write();
  if (wanted == peer.waits_to_write) return;
  const auto index = static_cast<std::uint64_t>(&peer - peers_.data());
  epoll_event event{.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, .data = {.u64 = link_tag(index)}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, peer.link->descriptor(), &event) == 0)
    peer.waits_to_write = wanted;
}

void LinkChannel::poll(TimePoint deadline, ControlSink& sink, Baton& baton) {
  while (true) {
    bool seen = false;
    if (shared_ > 0 && !failures_) {
      for (shm::Waiting wait; !seen && wait.again();) {
        seen = look_into_memory(sink);
        if (has_helpers_ || baton.is_wanted()) break;
      }
      if (seen && ++polls_without_kernel_ < kMostPollsWithoutKernel) return;
    }
    polls_without_kernel_ = 0;
    auto now = Clock::now();
    const bool sleeps = !seen && prepare_to_sleep();
    const int timeout_ms = sleeps ? poll_timeout_ms(std::min(deadline, next_timer()), now) : 0;
    std::array<epoll_event, 64> events;
    if (sleeps) baton.unlock();
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
    if (sleeps) baton.lock();
    ++wake_ups_;
    if (!seen) woken();
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      seen = handle(event.data.u64, event.events, sink) || seen;
    }
    seen = wake_.take() || seen;
    if (seen) has_helpers_ = false;
    now = Clock::now();
    // After the reading: if this process was stopped for long, the peer's messages are there, but not read.
    seen = keep_time(now, count < static_cast<int>(events.size()), sink) || seen;
    if (seen || now >= deadline) return;
  }
}

bool LinkChannel::look(ControlSink& sink) {
  has_helpers_ = true;
  if (!std::exchange(helped_, true)) {
    for (Peer& peer : peers_) {
      if (peer.link) peer.link->hold_wakes();
    }
  }
  if (declared_) woken();
  return look_into_memory(sink);
}

void LinkChannel::hand_back(bool needed) {
  for (Peer& peer : peers_) {
    if (peer.link) peer.link->send_wakes();
  }
  helped_ = false;
  if (needed) wake_.set_pending();
  if (!prepare_to_sleep() || failures_) wake_.kick();
}

/// Checks, without a system call, for data in shared memory and for wake().
bool LinkChannel::look_into_memory(ControlSink& sink) {
  bool seen = wake_.take();
  for (Peer& peer : peers_) {
    if (!peer.link || !peer.link->poll_ready()) continue;
    peer.link->flush();
    seen = read(peer, sink) || seen;
  }
  return seen;
}

/// Asks every neighbour for a wake-up. False if something has come meanwhile, so that the thread must not
/// sleep.
bool LinkChannel::prepare_to_sleep() {
  declared_ = true;
  if (!wake_.prepare_to_sleep()) return false;
  for (Peer& peer : peers_) {
    if (peer.link && !peer.link->prepare_to_sleep()) return false;
  }
  return true;
}

void LinkChannel::woken() {
  declared_ = false;
  wake_.woken();
  for (Peer& peer : peers_) {
    if (peer.link) peer.link->woken();
  }
}

/// True if poll() has something to return for.
bool LinkChannel::handle(std::uint64_t tag, std::uint32_t events, ControlSink& sink) {
  if (tag == kWakeTag) {
    wake_.read();
    return false;  // only the flag counts; this write may be late, for a wake() that was seen already
  }
  Peer& peer = peers_[tag / 2];
  if (!peer.link) return false;  // lost by an earlier event of this round
  if (tag == process_tag(tag / 2)) {
    on_process_ended(peer);
    return read(peer, sink);
  }
  if ((events & EPOLLOUT) != 0 || peer.link->is_shared_memory()) {
    peer.link->flush();
    write_interest(peer);
  }
  return (events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0 && read(peer, sink);
}

bool LinkChannel::read(Peer& peer, ControlSink& sink) {
  // Called when the link is readable: some bytes, or the end, have come.
  if (peer.beats) peer.last_heard = Clock::now();
  peer.has_spoken = true;
  const bool ended = peer.ended_at != kNever;
  if (ended) peer.last_word = Clock::now() + kLastWords;
  MessageSink messages(peer.rank, peer.clock, sink);
  const auto received = peer.link->receive(messages);
  if (received.is_ok() && *received != links::Link::Received::closed) return messages.delivered();
  std::string cause;
  if (ended) {
    cause = end_of_process(peer, ended_gloss_);
  } else {
    cause = fmt::format("{}: {}", peer.name,
                        received.is_ok() ? fmt::format("it closed its connection {}", ended_gloss_)
                                         : received.status().message());
  }
  if (!received.is_ok() && !ended) send_cause(peer, cause);
  lose(peer, Status(Code::peer_lost, std::move(cause)), sink);
  return true;
}

void LinkChannel::on_process_ended(Peer& peer) {
  const auto now = Clock::now();
  peer.ended_at = now + kLastWordsInAll;
  peer.last_word = now + kLastWords;
  ++ending_;
  peer.process.reset();  // also out of epoll, where it would stay readable
}

TimePoint LinkChannel::next_timer() const {
  if (failures_) return TimePoint::min();
  TimePoint next = next_beat_;
  if (ending_ > 0) {
    for (const Peer& peer : peers_) {
      if (peer.link) next = std::min({next, peer.ended_at, peer.last_word});
    }
  }
  return next;
}

/// Does what is due. True if a peer was lost. `all_read`: every link with data was read.
bool LinkChannel::keep_time(TimePoint now, bool all_read, ControlSink& sink) {
  bool lost = failures_ && report_failures(sink);
  lost = (ending_ > 0 && end_last_words(now, sink)) || lost;
  if (now < next_beat_) return lost;
  next_beat_ = now + beat_;
  for (Peer& peer : peers_) {
    if (!peer.link || !peer.beats) continue;
    // A peer that has sent nothing yet may still be in its init, which has a limit of its own.
    const Duration patience = patience_ + (peer.has_spoken ? Duration::zero() : init_patience_);
    if (all_read && patience_ > Duration::zero() && now - peer.last_heard >= patience) {
      // A thread that was stopped in epoll_wait returns with EINTR, even if there is data to read.
      if (pollfd entry{peer.link->descriptor(), POLLIN, 0}; ::poll(&entry, 1, 0) > 0) {
        lost = read(peer, sink) || lost;
        continue;
      }
      const Status cause = silence_of(peer, patience);
      send_cause(peer, cause.message());
      lose(peer, cause, sink);
      lost = true;
      continue;
    }
    // If a rank falls silent to several ranks at the same moment, each gives it up by itself at the same
    // moment. A rank that saw only the end of another rank's connection would blame that other rank.
    if (patience_ > Duration::zero() && peer.last_heard + patience > now)
      next_beat_ = std::min(next_beat_, peer.last_heard + patience);
    // Queued data is a sign of life by itself; beats would only pile up behind it.
    if (!peer.link->wants_write()) (void)peer.link->send(encode_beat(peer.clock.answer(Clock::now())));
    write_interest(peer);
  }
  return lost;
}

bool LinkChannel::report_failures(ControlSink& sink) {
  failures_ = false;
  for (Peer& peer : peers_) {
    if (!peer.link || peer.failure.is_ok()) continue;
    lose(peer, Status(Code::peer_lost, fmt::format("{}: {}", peer.name, peer.failure.message())), sink);
  }
  return true;
}

bool LinkChannel::end_last_words(TimePoint now, ControlSink& sink) {
  bool lost = false;
  for (Peer& peer : peers_) {
    if (!peer.link || std::min(peer.ended_at, peer.last_word) > now) continue;
    lose(peer, Status(Code::peer_lost, end_of_process(peer, ended_gloss_)), sink);
    lost = true;
  }
  return lost;
}

/// Sent to a peer that is given up and may still be running. Otherwise the peer takes this rank for the lost
/// one, and reports that to others.
void LinkChannel::send_cause(Peer& peer, const std::string& cause) {
  if (sends_failures_) (void)peer.link->send(words_of(cause));
}

void LinkChannel::lose(Peer& peer, Status cause, ControlSink& sink) {
  forget(peer);
  sink.on_peer_lost(peer.rank, cause);
}

void LinkChannel::forget(Peer& peer) {
  if (peer.link && peer.ended_at != kNever) --ending_;
  peer.ended_at = peer.last_word = kNever;
  peer.process.reset();
  peer.link.reset();
  peer.beats = false;
}

void LinkChannel::close(TimePoint deadline) {
  std::vector<links::Link*> open;
  for (Peer& peer : peers_) {
    if (peer.link && peer.failure.is_ok()) open.push_back(peer.link.get());
  }
  finish_links(std::move(open), deadline);
  for (Peer& peer : peers_) forget(peer);
  any_beats_ = false;
  next_beat_ = kNever;
}

}  // namespace dabke::control

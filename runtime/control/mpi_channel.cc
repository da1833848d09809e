#include "runtime/control/mpi_channel.h"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

#include "runtime/control/link_channel.h"
#include "runtime/links/link.h"
#include "runtime/links/shm/waiting.h"

namespace dabke::control {
namespace {

using namespace std::chrono_literals;

constexpr Duration kShortNap = 1ms;
constexpr Duration kLongNap = 10ms;
constexpr int kShortNaps = 100;
constexpr Duration kFirstNudgeGap = 10ms;
constexpr Duration kLongestNudgeGap = 1s;
// Longer than the longest gap, so that a nudged transfer goes on until it ends.
constexpr Duration kWorkAfterNudge = 1500ms;
// The longest time for which data that a lost peer's MPI had handed over is on its way.
constexpr Duration kOnItsWay = 200ms;
// When MPI fails because a peer died, the notices show within this time which one.
constexpr Duration kNoticeGrace = 1s;

class NoMessages final : public ControlSink {
 public:
  void on_message(Rank, std::span<const std::byte>) override {}
  void on_peer_lost(Rank, const Status&) override {}
};

}  // namespace

class MpiChannel::BellSink final : public ControlSink {
 public:
  explicit BellSink(MpiChannel& channel) : channel_(channel) {}
  void on_message(Rank peer, std::span<const std::byte> notice) override { channel_.on_notice(peer, notice); }
  void on_peer_lost(Rank peer, const Status& cause) override { channel_.on_link_lost(peer, cause); }

 private:
  MpiChannel& channel_;
};

Result<std::unique_ptr<ControlChannel>> MpiChannel::open(modules::MpiSession* session, const World& world,
                                                         std::span<const Rank> neighbours,
                                                         const Config& config,
                                                         std::shared_ptr<store::Store> store,
                                                         ForkGuard& guard, Log log) {
  DABKE_RETURN_IF_ERROR(modules::mpi_can_serve(session, "DABKE_CONTROLLER=mpi"));
  DABKE_ASSIGN_OR_RETURN(auto port, session->open_port(world.epoch, deadline_after(config.start_timeout)));
  DABKE_ASSIGN_OR_RETURN(
      auto notices, LinkChannel::open(world, neighbours, config, std::move(store), guard, std::move(log)));
  return std::unique_ptr<ControlChannel>(
      std::make_unique<MpiChannel>(world, neighbours, std::move(notices), std::move(port)));
}

MpiChannel::MpiChannel(const World& world, std::span<const Rank> neighbours,
                       std::unique_ptr<ControlChannel> notices, std::unique_ptr<modules::MpiPort> port)
    : notices_(std::move(notices)), port_(std::move(port)) {
  for (const Rank rank : neighbours) {
    Peer& peer = peers_.emplace_back();
    peer.rank = rank;
    peer.name = world.name_of(rank);
  }
  std::ranges::sort(peers_, {}, &Peer::rank);
}

MpiChannel::Peer* MpiChannel::find(Rank rank) {
  const auto found = std::ranges::lower_bound(peers_, rank, {}, &Peer::rank);
  return found != peers_.end() && found->rank == rank ? &*found : nullptr;
}

void MpiChannel::notify(const Peer& peer, Notice notice) {
  const std::byte byte{static_cast<unsigned char>(notice)};
  notices_->send(peer.rank, {&byte, 1});
}

void MpiChannel::send(Rank rank, std::span<const std::byte> message) {
  Peer* const peer = find(rank);
  assert(peer != nullptr && "messages can only be sent to neighbours");
  if (peer->is_gone || peer->said_end || !peer->lost.is_ok() || !peer->broken.is_ok()) return;
  if (message.size() > links::kMaxFrameBytes) {
    // The peer would wait for this message for ever, so nothing can follow it.
    return break_off(
        *peer, {Code::invalid_argument, fmt::format("a message of {} bytes is too long; the longest has {}",
                                                    message.size(), links::kMaxFrameBytes)});
  }
  const auto sent = port_->send(rank, message);
  if (!sent.is_ok()) return break_off(*peer, sent.status());
  notify(*peer, *sent ? Notice::sent : Notice::offered);
}

void MpiChannel::on_notice(Rank rank, std::span<const std::byte> notice) {
  Peer& peer = *find(rank);
  if (peer.is_gone) return;
  switch (static_cast<Notice>(notice.front())) {
    case Notice::sent:
    case Notice::offered:
      if (peer.announced.empty()) {
        peer.next_nudge = TimePoint::min();
        peer.nudge_gap = kFirstNudgeGap;
      }
      peer.announced.push_back(static_cast<Notice>(notice.front()));
      ++awaited_;
      naps_ = 0;
      return;
    case Notice::nudge: works_until_ = Clock::now() + kWorkAfterNudge; return;
    case Notice::end:
      peer.heard_end = true;
      send_end(peer);
      send_done(peer);
      return;
    case Notice::done:
      peer.heard_done = true;
      works_until_ = Clock::now() + kWorkAfterNudge;  // the peer has all, so MPI can give back what we sent
      return;
  }
}

void MpiChannel::on_link_lost(Rank rank, const Status& cause) {
  Peer& peer = *find(rank);
  if (peer.is_gone) return;
  if (peer.give_up == kNever) ++ending_;
  peer.lost = cause;
  peer.give_up = Clock::now() + kOnItsWay;
}

void MpiChannel::send_end(Peer& peer) {
  if (!std::exchange(peer.said_end, true)) notify(peer, Notice::end);
}

/// Notifies the peer when everything has come that the peer will ever send.
void MpiChannel::send_done(Peer& peer) {
  if (!peer.heard_end || !peer.announced.empty() || std::exchange(peer.said_done, true)) return;
  notify(peer, Notice::done);
}

void MpiChannel::break_off(Peer& peer, Status cause) {
  if (!peer.broken.is_ok() || peer.is_gone) return;
  peer.broken = std::move(cause);
  if (peer.give_up == kNever) ++ending_;
  // A message of ours that is too long is a cause that no other rank reports.
  const bool is_ours = peer.broken.code() == Code::invalid_argument;
  peer.give_up = is_ours ? TimePoint::min() : Clock::now() + kNoticeGrace;
}

void MpiChannel::poll(TimePoint deadline, ControlSink& sink, Baton& baton) {
  BellSink notices(*this);
  while (true) {
    bool seen = deliver(sink);
    if (!seen) {
      notices_->poll(before_sleep(deadline), notices, baton);
      seen = deliver(sink);
    }
    if (seen || woken_.exchange(false) || Clock::now() >= deadline) return;
  }
}

/// Delivers announced messages that are there, or that come in a moment, and does what is due.
bool MpiChannel::deliver(ControlSink& sink) {
  if (awaited_ == 0 && ending_ == 0 && !works_for_others()) return false;
  bool seen = false;
  std::size_t sends = 0;
  for (shm::Waiting wait; !seen && (awaited_ > 0 || works_for_others()) && wait.again();) {
    if (works_for_others()) sends = work_for_others();
    for (Peer& peer : peers_) seen = take_from(peer, sink) || seen;
  }
  const TimePoint now = Clock::now();
  if (!seen && (sends == 0 || now >= works_until_)) works_until_ = TimePoint::min();
  if (ending_ == 0) return seen;
  for (Peer& peer : peers_) seen = report_loss(peer, now, sink) || seen;
  return seen;
}

bool MpiChannel::take_from(Peer& peer, ControlSink& sink) {
  bool seen = false;
  while (!peer.announced.empty() && peer.broken.is_ok()) {
    // A message that a lost peer had only offered cannot come any more.
    if (!peer.lost.is_ok() && peer.announced.front() == Notice::offered) break;
    const auto message = port_->receive(peer.rank);
    if (!message.is_ok()) {
      break_off(peer, message.status());
      break;
    }
    if (!message->has_value()) break;
    peer.announced.pop_front();
    --awaited_;
    peer.next_nudge = TimePoint::min();
    peer.nudge_gap = kFirstNudgeGap;
    naps_ = 0;
    seen = true;
    sink.on_message(peer.rank, **message);
  }
  send_done(peer);
  return seen;
}

bool MpiChannel::report_loss(Peer& peer, TimePoint now, ControlSink& sink) {
  if (peer.is_gone || peer.give_up == kNever) return false;
  const bool may_come =
      peer.broken.is_ok() && !peer.announced.empty() && peer.announced.front() == Notice::sent;
  const bool is_explained = !peer.lost.is_ok() && !may_come;
  if (!is_explained && now < peer.give_up) return false;
  peer.is_gone = true;
  peer.give_up = kNever;
  --ending_;
  awaited_ -= peer.announced.size();
  peer.announced.clear();
  port_->forget(peer.rank);
  const Status& cause = peer.lost.is_ok() ? peer.broken : peer.lost;
  sink.on_peer_lost(
      peer.rank,
      peer.lost.is_ok() ? Status(Code::peer_lost, fmt::format("{}: {}", peer.name, cause.message())) : cause);
  return true;
}

/// Lets MPI work for the peers. Returns the number of sends in progress.
std::size_t MpiChannel::work_for_others() {
  const modules::MpiPort::Progress progress = port_->progress();
  if (progress.failed_rank >= 0) {
    if (Peer* const peer = find(progress.failed_rank)) break_off(*peer, progress.failure);
  }
  return progress.sends;
}

/// Nudges the senders of awaited messages. Returns the latest time for the next check.
TimePoint MpiChannel::before_sleep(TimePoint deadline) {
  const TimePoint now = Clock::now();
  for (Peer& peer : peers_) {
    if (ending_ > 0) deadline = std::min(deadline, peer.give_up);
    if (peer.announced.empty() || !peer.lost.is_ok() || !peer.broken.is_ok() || now < peer.next_nudge)
      continue;
    notify(peer, Notice::nudge);
    peer.next_nudge = now + peer.nudge_gap;
    peer.nudge_gap = std::min<Duration>(2 * peer.nudge_gap, kLongestNudgeGap);
  }
  if (awaited_ == 0 && !works_for_others()) return deadline;
  return std::min(deadline, now + (++naps_ > kShortNaps ? kLongNap : kShortNap));
}

void MpiChannel::wake() {
  woken_.store(true);
  notices_->wake();
}

bool MpiChannel::all_closed() const {
  return std::ranges::all_of(peers_, [](const Peer& peer) {
    return peer.is_gone || !peer.broken.is_ok() || (peer.said_done && peer.heard_done);
  });
}

void MpiChannel::close(TimePoint deadline) {
  NoMessages nothing;
  BellSink notices(*this);
  for (Peer& peer : peers_) {
    if (!peer.is_gone && peer.lost.is_ok()) send_end(peer);
  }
  while (Clock::now() < deadline) {
    if (deliver(nothing)) continue;
    if (all_closed() && !works_for_others()) break;
    dabke::control::poll(*notices_, before_sleep(deadline), notices);
  }
  notices_->close(deadline);
  port_.reset();
}

}  // namespace dabke::control

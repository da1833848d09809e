// The control channel over our own links to any set of neighbours: through shared memory where both ranks are
// on one host and can, else over TCP.
//
// While there are links in shared memory, poll() looks at them and at the wake flag for a short, bounded
// while (waiting.h) before it declares on each of them that it sleeps, and sleeps. Until then neither a peer
// nor wake() makes a system call.
//
// A neighbour's loss is noticed by whichever comes first:
//   - its link ends (closed, reset, or TCP_USER_TIMEOUT between hosts);
//   - its process ends, seen through a pidfd when it shares our host and pid namespace: this works even while
//     a child of it still holds the link open;
//   - silence: a neighbour whose process we cannot watch gets a beat every second, or four of them in
//     config.peer_timeout where that is short, and is lost when nothing came from it for config.peer_timeout
//     seconds, and for config.start_timeout more while it may be in its init. It is sent that as its last
//     word. Neighbours we can watch get no such beat, so an idle channel on one host never wakes.
// Whatever it is, the messages that were sent before are delivered first.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "runtime/base/log.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/threads/fork_guard.h"
#include "runtime/base/threads/guarded_fd.h"
#include "runtime/control/control_channel.h"
#include "runtime/control/link_neighbour.h"
#include "runtime/control/poll_wake.h"
#include "runtime/links/link.h"
#include "runtime/store/store.h"

namespace dabke::control {

class LinkChannel final : public ControlChannel {
 public:
  /// Returns once all neighbours are connected and have proved themselves. Code timeout after
  /// config.start_timeout seconds, naming the ranks and hosts that are missing. `guard` must outlive the
  /// channel.
  static Result<std::unique_ptr<ControlChannel>> open(const World& world, std::span<const Rank> neighbours,
                                                      const Config& config,
                                                      std::shared_ptr<store::Store> store, ForkGuard& guard,
                                                      Log log);
  /// The same as a process that says to be `self`, by which a test makes one host look like two.
  static Result<std::unique_ptr<LinkChannel>> open_as(const links::ProcessIdentity& self, const World& world,
                                                      std::span<const Rank> neighbours, const Config& config,
                                                      std::shared_ptr<store::Store> store, ForkGuard& guard,
                                                      Log log);
  ~LinkChannel() override = default;

  /// "shm", "tcp" or, when the neighbours differ, "shm+tcp".
  int process_of(Rank peer) const override;
  std::string_view name() const override;
  std::optional<ClockOffset> clock_of(Rank peer, TimePoint now) const override;
  /// `message` does not begin with the tag of a beat.
  void send(Rank peer, std::span<const std::byte> message) override;
  void poll(TimePoint deadline, ControlSink& sink, Baton& baton) override;
  void wake() override { wake_.wake(); }
  void close(TimePoint deadline) override;
  bool can_be_helped() const override { return over_tcp_ == 0 && !any_beats_; }
  bool look(ControlSink& sink) override;
  void hand_back(bool needed) override;

  /// How often poll() came back from waiting in the kernel, for whatever reason.
  std::uint64_t wake_ups() const { return wake_ups_; }

 private:
  using Peer = LinkNeighbour;

  LinkChannel(const Config& config, ForkGuard& guard, Log log)
      : patience_(seconds_to_duration(config.peer_timeout)),
        beat_(beat_interval(patience_)),
        init_patience_(seconds_to_duration(config.start_timeout)),
        sends_failures_(config.controller != Controller::mpi),
        ended_gloss_(fmt::format("(killed, or ended without {})", shutdown_name(config))),
        guard_(guard),
        log_(std::move(log)) {}
  Status start();
  Status add_peer(const links::ProcessIdentity& self, const World& world, std::unique_ptr<links::Link> link);
  Status watch_process_of(Peer& peer, std::uint64_t index);

  bool report_failures(ControlSink& sink);
  bool end_last_words(TimePoint now, ControlSink& sink);
  bool look_into_memory(ControlSink& sink);
  bool prepare_to_sleep();
  void woken();
  bool handle(std::uint64_t tag, std::uint32_t events, ControlSink& sink);
  bool read(Peer& peer, ControlSink& sink);
  void on_process_ended(Peer& peer);
  bool keep_time(TimePoint now, bool all_read, ControlSink& sink);
  TimePoint next_timer() const;
  void write_interest(Peer& peer);
  void send_cause(Peer& peer, const std::string& cause);
  void lose(Peer& peer, Status cause, ControlSink& sink);
  void forget(Peer& peer);
  Peer* find(Rank rank);

  Duration patience_;              // how long a peer may be silent; zero: for ever
  Duration beat_;                  // between two signs of life
  Duration init_patience_;         // so much longer where it has not said anything yet
  bool sends_failures_;            // the links carry the negotiation's messages
  const std::string ended_gloss_;  // what the end of a process, or of a connection that it closed, can mean
  ForkGuard& guard_;
  Log log_;
  GuardedFd epoll_;
  PollWake wake_;
  bool declared_ = false;     // and the neighbours were told so
  bool helped_ = false;       // who drives is not the one in poll()
  bool has_helpers_ = false;  // there was such a one since poll() delivered anything
  std::vector<Peer> peers_;   // by rank; its order is fixed once open
  bool any_beats_ = false;
  std::size_t shared_ = 0;        // links in shared memory, when it was opened
  std::size_t over_tcp_ = 0;      // the others
  int polls_without_kernel_ = 0;  // calls in a row
  int ending_ = 0;                // peers whose process has ended and whose link is still read
  bool failures_ = false;         // some peer has a failure to report
  TimePoint next_beat_ = kNever;
  std::uint64_t wake_ups_ = 0;
};

}  // namespace dabke::control

// The control channel over links of our own, to any set of neighbours: through shared memory if both ranks
// are on one host and can use it, otherwise over TCP.
//
// With links in shared memory, poll() first checks these links and the wake flag for a short, bounded time
// (waiting.h). Then it declares on each of them that it sleeps, and sleeps. Until then neither a peer nor
// wake() makes a system call.
//
// The loss of a neighbour is noticed by whichever of these comes first:
//   - The end of its link: closed, reset, or TCP_USER_TIMEOUT between hosts.
//   - The end of its process, seen through a pidfd if it shares our host and pid namespace. This works even
//     while a child of the process still holds the link open.
//   - Silence, if we cannot watch its process. Such a neighbour gets a beat every second, or four in
//     config.peer_timeout if that is short. It is lost when nothing has come from it for config.peer_timeout
//     seconds, and for config.start_timeout more while it may be in its init. The cause is the last message
//     to it. Neighbours that we can watch get no beats, so an idle channel on one host never wakes.
// In every case, messages that were sent before are delivered first.
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
  /// Returns once all neighbours are connected and authenticated. Fails with code timeout after
  /// config.start_timeout seconds, naming the missing ranks and hosts. `guard` must outlive the channel.
  static Result<std::unique_ptr<ControlChannel>> open(const World& world, std::span<const Rank> neighbours,
                                                      const Config& config,
                                                      std::shared_ptr<store::Store> store, ForkGuard& guard,
                                                      Log log);
  /// Like open(), as a process that claims to be `self`. A test uses it to make one host look like two.
  static Result<std::unique_ptr<LinkChannel>> open_as(const links::ProcessIdentity& self, const World& world,
                                                      std::span<const Rank> neighbours, const Config& config,
                                                      std::shared_ptr<store::Store> store, ForkGuard& guard,
                                                      Log log);
  ~LinkChannel() override = default;

  int process_of(Rank peer) const override;
  /// "shm", "tcp" or, if the neighbours differ, "shm+tcp".
  std::string_view name() const override;
  std::optional<ClockOffset> clock_of(Rank peer, TimePoint now) const override;
  /// `message` must not begin with the tag of a beat.
  void send(Rank peer, std::span<const std::byte> message) override;
  void poll(TimePoint deadline, ControlSink& sink, Baton& baton) override;
  void wake() override { wake_.wake(); }
  void close(TimePoint deadline) override;
  bool can_be_helped() const override { return over_tcp_ == 0 && !any_beats_; }
  bool look(ControlSink& sink) override;
  void hand_back(bool needed) override;

  /// How often poll() has returned from waiting in the kernel, for any reason.
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

  Duration patience_;              // how long a peer may be silent; zero: without limit
  Duration beat_;                  // between two signs of life
  Duration init_patience_;         // added for a peer that has sent nothing yet
  bool sends_failures_;            // the links carry the negotiation's messages
  const std::string ended_gloss_;  // what the end of a process, or of its connection, can mean
  ForkGuard& guard_;
  Log log_;
  GuardedFd epoll_;
  PollWake wake_;
  bool declared_ = false;     // the neighbours were notified of the sleep
  bool helped_ = false;       // another thread drives than the one in poll()
  bool has_helpers_ = false;  // a helper has driven since poll() last delivered something
  std::vector<Peer> peers_;   // by rank; the order is fixed once open
  bool any_beats_ = false;
  std::size_t shared_ = 0;        // links in shared memory when the channel was opened
  std::size_t over_tcp_ = 0;      // the other links
  int polls_without_kernel_ = 0;  // calls in a row
  int ending_ = 0;                // peers whose process has ended and whose link is still read
  bool failures_ = false;         // some peer has a failure to report
  TimePoint next_beat_ = kNever;
  std::uint64_t wake_ups_ = 0;
};

}  // namespace dabke::control

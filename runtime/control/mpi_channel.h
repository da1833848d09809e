// The control channel over MPI. MPI carries the messages, and a link of our own beside it carries one notice
// per message.
//
// MPI can only be polled, so a rank that waited in MPI would never sleep. The rank waits in the link
// (link_channel.h), which also finds lost ranks. It asks MPI for a message only when a notice has come.
//
//   1. The sender hands the message to MPI, then sends a notice: `sent` if MPI has all of the message,
//      `offered` if MPI still needs the sender, as with long messages.
//   2. The receiver of the notice asks MPI until that message is there: it spins, then yields, then naps. The
//      messages of each peer are taken in the order of its notices.
//   3. Before the first nap, and ever more rarely after it, the receiver sends `nudge`. A sleeping sender
//      then lets MPI work for a while. Otherwise nothing would move what its MPI has queued.
//   4. A rank that closes sends `end`: no message will follow. The other rank sends `end` back, because it
//      must send nothing more. Each sends `done` when it has all that was announced. Then MPI holds nothing
//      of either.
//
// When a peer is lost, messages that it had announced as `sent` are awaited a little longer. Messages that it
// had only offered are lost with it.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/threads/fork_guard.h"
#include "runtime/control/control_channel.h"
#include "runtime/modules/mpi_session.h"
#include "runtime/store/store.h"

namespace dabke::control {

class MpiChannel final : public ControlChannel {
 public:
  /// Collective over the job. Returns the errors of LinkChannel::open. Also returns an error with its remedy
  /// if MPI cannot be used, for example if `session` is null.
  static Result<std::unique_ptr<ControlChannel>> open(modules::MpiSession* session, const World& world,
                                                      std::span<const Rank> neighbours, const Config& config,
                                                      std::shared_ptr<store::Store> store, ForkGuard& guard,
                                                      Log log);
  /// Uses channels that are open. `notices` goes to the same neighbours, and both have no other user.
  MpiChannel(const World& world, std::span<const Rank> neighbours, std::unique_ptr<ControlChannel> notices,
             std::unique_ptr<modules::MpiPort> port);

  int process_of(Rank peer) const override { return notices_->process_of(peer); }
  std::string_view name() const override { return "mpi"; }
  void send(Rank peer, std::span<const std::byte> message) override;
  void poll(TimePoint deadline, ControlSink& sink, Baton& baton) override;
  void wake() override;
  void close(TimePoint deadline) override;

 private:
  enum class Notice : unsigned char { sent, offered, nudge, end, done };
  class BellSink;
  struct Peer {
    Rank rank = -1;
    std::string name;              // "rank 3 on host-b"
    std::deque<Notice> announced;  // messages that have not come yet: `sent` or `offered`
    TimePoint next_nudge;          // used while something is announced
    Duration nudge_gap{};
    bool said_end = false, heard_end = false, said_done = false, heard_done = false;
    Status lost;    // the cause; it is reported after the last message, or at `give_up`
    Status broken;  // MPI failed; the notices may still show the cause, until `give_up`
    TimePoint give_up = kNever;
    bool is_gone = false;  // the loss is reported
  };

  Peer* find(Rank rank);
  void notify(const Peer& peer, Notice notice);
  void on_notice(Rank rank, std::span<const std::byte> notice);
  void on_link_lost(Rank rank, const Status& cause);
  void send_end(Peer& peer);
  void send_done(Peer& peer);
  void break_off(Peer& peer, Status cause);
  bool deliver(ControlSink& sink);
  bool take_from(Peer& peer, ControlSink& sink);
  bool report_loss(Peer& peer, TimePoint now, ControlSink& sink);
  bool works_for_others() const { return works_until_ != TimePoint::min(); }
  std::size_t work_for_others();
  TimePoint before_sleep(TimePoint deadline);
  bool all_closed() const;

  std::unique_ptr<ControlChannel> notices_;
  std::unique_ptr<modules::MpiPort> port_;
  std::vector<Peer> peers_;  // by rank
  std::atomic<bool> woken_{false};
  std::size_t awaited_ = 0;                   // announced messages of all peers
  int ending_ = 0;                            // peers with a `give_up`
  TimePoint works_until_ = TimePoint::min();  // set when a peer has nudged us; min: none has
  int naps_ = 0;                              // in a row
};

}  // namespace dabke::control

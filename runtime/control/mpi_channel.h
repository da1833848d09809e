// The control channel over MPI: MPI carries the messages, and a link of ours beside it one notice a message.
//
// MPI can only be asked again and again, so a rank that waited in it would never sleep. It waits in the link
// (link_channel.h), which also finds out who is lost; only when a notice has come it asks MPI for the message.
//
//   1. Who sends hands the message to MPI, then rings: `sent` when MPI has all of it, `offered` when MPI
//      still needs the sender, which is so with long messages.
//   2. Who hears it asks MPI until that message is there: spinning, then yielding, then with naps. The
//      messages of each peer are taken in the order of its notices.
//   3. Before the first nap, and ever more rarely after it, the receiver rings `nudge`. A sender that sleeps
//      lets MPI work for a while then; otherwise nothing would move what its MPI has queued.
//   4. Who closes rings `end`: no message will follow. The other rings `end` back, for it must send nothing
//      more, and each rings `done` when it has all that was announced. Then nothing of either is left in MPI.
//
// When a peer is lost, what it had announced as `sent` is waited for a little longer; what it had only
// offered died with it.
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
  /// Collective over the job. Errors as LinkChannel::open, and what keeps MPI from it with the remedy; a null
  /// `session` is one.
  static Result<std::unique_ptr<ControlChannel>> open(modules::MpiSession* session, const World& world,
                                                      std::span<const Rank> neighbours, const Config& config,
                                                      std::shared_ptr<store::Store> store, ForkGuard& guard,
                                                      Log log);
  /// Over channels that are open: `notices` to the same neighbours, and nobody else uses either.
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
    std::deque<Notice> announced;  // its messages that have not come yet: `sent` or `offered`
    TimePoint next_nudge;          // meaningful while something is announced
    Duration nudge_gap{};
    bool said_end = false, heard_end = false, said_done = false, heard_done = false;
    Status lost;    // why; it is reported after its last message, or at `give_up`
    Status broken;  // MPI failed; the notices may yet tell why, until `give_up`
    TimePoint give_up = kNever;
    bool is_gone = false;  // reported
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
  TimePoint works_until_ = TimePoint::min();  // because a peer has nudged us; min: nobody has
  int naps_ = 0;                              // in a row
};

}  // namespace dabke::control

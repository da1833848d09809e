// The ranks of an agent's host: started below supervisors, reported to the launcher, and ended with all
// processes that they have started. In an elastic job a rank's number is that of its worker.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/carried_output.h"
#include "launcher/agent_protocol/frame_channel.h"
#include "launcher/agent_protocol/protocol.h"
#include "launcher/machine/core_shares.h"
#include "launcher/process/orphans.h"
#include "launcher/process/output_ends.h"
#include "launcher/process/spawn.h"
#include "launcher/process/supervisor.h"
#include "runtime/base/clock.h"
#include "runtime/base/terminal.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

/// Started once, by prepare() and start(); an elastic job starts more by start_later(). The process has one
/// thread.
class HostRanks {
 public:
  /// Reports ranks into `channel`, which outlives this object. `outputs` are the ranks' stdouts and stderrs,
  /// by rank; none: their output goes into the channel, too.
  HostRanks(FrameChannel& channel, std::vector<OutputEnds> outputs, InheritedState inherited);

  const InheritedState& inherited() const { return inherited_; }
  bool carries_output() const { return carries_output_; }

  /// The ranks get `job.rendezvous` and `job.job_key`. `input` is the input of rank 0; empty: none.
  void prepare(PrepareMessage job, std::string program, Fd input);
  /// Starts the prepared ranks. After an error, the ranks that were started before still run.
  Status start();
  /// Starts one more rank. If that fails, reports it as a rank that has not started.
  void start_later(RankOrder order);
  /// Notes which process of the rank's tree has called init.
  void watch_rank(const WatchMessage& watch);
  /// Kills one rank with all processes that it has started.
  void kill_rank(int rank);
  /// The command is one of CommandMessage.
  void command(std::int32_t command);
  /// Ends the ranks with all processes that they have started. `command` is Command::kEnd or kKill.
  void end_all(std::int32_t command);
  /// Answers the frame `look`.
  void report_states();
  void take_window(const WindowMessage& window);
  void hold(bool is_error_output, bool is_held) { is_held_[is_error_output ? 1 : 0] = is_held; }
  /// Drops output from now on, because the launcher is gone.
  void drop_output();

  /// True if ranks have been started, no more will be, and the end of each was sent to the launcher.
  bool are_all_over() const;
  /// True if no rank has left a process that this process must handle.
  bool are_none_left() const;

  TimePoint deadline() const;
  void add_poll_entries(std::vector<pollfd>& entries) const;
  void handle(const pollfd& entry);
  void tick(TimePoint now);

 private:
  struct Worker {
    int rank = 0;
    pid_t supervisor = -1;
    Fd channel;  // closed: the supervisor has ended
    pid_t pid = 0;
    bool has_ended = false;
    bool is_over = false;  // reported to the launcher
    CarriedOutput output, error_output;
  };

  CoreShares core_shares();
  Status start_rank(std::size_t index, const CoreShares& shares);
  void send_to_supervisor(const Worker& worker, std::int32_t command) const;
  Result<SpawnedWorker> spawn(const RankOrder& order, const CoreShares& shares, const OutputEnds& ends);
  void send_to_supervisors(std::int32_t command);
  void take_reports(Worker& worker);
  void take_report(Worker& worker, const Report& report);
  void supervisor_ended(Worker& worker);
  void kill_orphans();
  void report_who_is_over();
  void report(const std::string& text);

  FrameChannel& channel_;
  std::vector<OutputEnds> outputs_;
  const bool carries_output_;
  const InheritedState inherited_;
  PrepareMessage job_;
  std::string program_;
  Fd input_;
  Orphans orphans_;
  std::vector<Worker> workers_;
  std::map<int, TerminalSize> windows_;  // by rank
  bool is_held_[2] = {false, false};     // stdout, stderr
  bool is_asked_to_end_ = false;         // a rank that ends now may have ended by our signal
  std::optional<TimePoint> abandon_at_;  // for supervisors that do not answer
};

}  // namespace dabke::launcher

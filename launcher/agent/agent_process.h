// What runs in the process of an agent: its conversation with the launcher (agent.cc), and the ranks of its host
// (host_ranks.cc).
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/agent.h"
#include "launcher/agent/carried_input.h"
#include "launcher/agent/carried_output.h"
#include "launcher/agent/store_door.h"
#include "launcher/agent_protocol/frame_channel.h"
#include "launcher/agent_protocol/protocol.h"
#include "launcher/examination/examination.h"
#include "launcher/process/orphans.h"
#include "launcher/process/spawn.h"
#include "runtime/base/clock.h"

namespace dabke {

/// By the clock of its host.
inline std::int64_t agent_now_ns() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

/// Its time of day, since 1970.
inline std::int64_t wall_now_ns() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// One thread, one poll; nothing in it blocks but that.
class Agent {
 public:
  explicit Agent(AgentStart start)
      : channel_(std::move(start.in), std::move(start.out)),
        outputs_(std::move(start.outputs)),
        carries_output_(outputs_.empty()),
        input_(std::move(start.input)),
        inherited_(std::move(start.inherited)),
        job_key_(std::move(start.job_key)),
        signals_(std::move(start.signals)) {}

  void run() {
    while (!is_done()) turn();
  }

 private:
  struct Worker {
    int rank = 0;
    pid_t supervisor = -1;
    Fd channel;  // closed: the supervisor has ended
    pid_t pid = 0;
    bool has_ended = false;
    bool is_over = false;  // and the launcher knows it
    CarriedOutput output, error_output;
  };

  template <class T>
  void tell(FrameKind kind, const T& message) {
    channel_.send(static_cast<std::uint8_t>(kind), to_wire(message));
  }
  /// The launcher closes the conversation; where it needs nothing more of us, it need not wait for us to see that.
  bool is_done() const {
    const bool is_told = !workers_.empty() && channel_.waiting() == 0 &&
                         std::ranges::all_of(workers_, [](const Worker& worker) { return worker.is_over; });
    return (is_launcher_gone_ && !has_running_supervisor() && orphans_.due() == kNever) || is_told;
  }
  bool has_running_supervisor() const {
    return std::ranges::any_of(workers_,
                               [](const Worker& worker) { return static_cast<bool>(worker.channel); });
  }

  void turn();
  TimePoint next_deadline() const;
  void add_poll_entries(std::vector<pollfd>& entries) const;
  void handle(const pollfd& entry);
  void check_time();
  void take_signal();
  void take_frames();
  void take_frame(FrameKind kind, std::string_view content);
  void prepare(std::string_view content);
  Status prepare_ranks();
  void refuse(int exit_code, const std::string& why);
  void examine(std::string_view content);
  void take_examination(FrameKind kind, std::string_view content);
  void tell_examination();
  void start();
  Status start_rank(std::size_t index, const CoreShares& shares);
  Result<SpawnedWorker> spawn(const RankOrder& order, const CoreShares& shares, const OutputEnds& ends);
  CoreShares core_shares();
  void take_window(const WindowMessage& window);
  void command(std::int32_t command);
  void tell_supervisors(std::int32_t command);
  void end_all(std::int32_t command);
  void look();
  void launcher_is_gone();
  Duration silence_limit() const;
  bool expects_launcher() const { return silence_limit() > Duration{} && !is_paused_ && !is_launcher_gone_; }
  void take_reports(Worker& worker);
  void take_report(Worker& worker, const Report& report);
  void supervisor_ended(Worker& worker);
  void kill_orphans();
  void tell_who_is_over();

  FrameChannel channel_;
  std::vector<OutputEnds> outputs_;
  const bool carries_output_;
  Fd input_;
  const InheritedState inherited_;
  const std::string job_key_;
  const Fd signals_;
  PrepareMessage job_;
  bool is_prepared_ = false;
  std::string program_;
  std::unique_ptr<StoreDoor> door_;
  CarriedInput carried_input_;
  std::unique_ptr<Examination> examination_;  // of a host that runs nothing
  Orphans orphans_;
  std::vector<Worker> workers_;
  std::map<int, TerminalSize> windows_;  // by rank
  bool is_held_[2] = {false, false};     // stdout, stderr
  bool is_told_to_end_ = false;          // a signal of ours may have ended what ends now
  bool is_launcher_gone_ = false;
  bool is_paused_ = false;
  TimePoint heard_at_ = Clock::now();
  std::optional<TimePoint> abandon_at_;  // supervisors that do not answer
};

}  // namespace dabke

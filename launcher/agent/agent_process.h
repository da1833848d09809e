// The process of an agent: its conversation with the launcher.
#pragma once

#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/agent.h"
#include "launcher/agent/carried_input.h"
#include "launcher/agent/host_ranks.h"
#include "launcher/agent/store_proxy.h"
#include "launcher/agent_protocol/frame_channel.h"
#include "launcher/agent_protocol/protocol.h"
#include "launcher/examination/examination.h"
#include "runtime/base/clock.h"

namespace dabke::launcher {

/// One thread with one poll(), the only call that blocks.
class Agent {
 public:
  explicit Agent(AgentStart start)
      : channel_(std::move(start.in), std::move(start.out)),
        ranks_(channel_, std::move(start.outputs), std::move(start.inherited)),
        input_(std::move(start.input)),
        job_key_(std::move(start.job_key)),
        signals_(std::move(start.signals)) {}

  void run() {
    while (!is_done()) turn();
  }

 private:
  /// True if nothing is left to do. Usually the launcher closes the conversation. Once all ranks are over and
  /// all frames are sent, the agent need not wait for that.
  bool is_done() const {
    return (is_launcher_gone_ && ranks_.are_none_left()) ||
           (channel_.waiting() == 0 && ranks_.are_all_over());
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
  Status carry_for(PrepareMessage& job);
  void start();
  void take_rank(std::string_view content);
  void refuse(int exit_code, const std::string& why);
  void examine(std::string_view content);
  void take_examination(FrameKind kind, std::string_view content);
  void report_examination();
  void launcher_is_gone();
  Duration silence_limit() const;
  bool expects_launcher() const { return silence_limit() > Duration{} && !is_paused_ && !is_launcher_gone_; }

  FrameChannel channel_;
  HostRanks ranks_;
  Fd input_;  // of rank 0, until it is started
  const std::string job_key_;
  const Fd signals_;
  std::optional<Duration> peer_timeout_;  // of the job; none: not received yet
  std::unique_ptr<StoreProxy> store_;
  CarriedInput carried_input_;
  std::unique_ptr<Examination> examination_;  // of a host that runs no ranks
  bool is_launcher_gone_ = false;
  bool is_paused_ = false;
  TimePoint heard_at_ = Clock::now();
};

}  // namespace dabke::launcher

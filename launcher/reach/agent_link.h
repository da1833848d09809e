// The launcher's end of the conversation with the agent of one host (launcher/agent_protocol/protocol.h).
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/carried_connections.h"
#include "launcher/agent_protocol/dialling.h"
#include "launcher/agent_protocol/frame_channel.h"
#include "launcher/agent_protocol/protocol.h"
#include "launcher/reach/watched_process.h"
#include "runtime/base/clock.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

/// The process that starts the agent, or is the agent, and our ends of its streams.
struct AgentProcess {
  pid_t pid = -1;
  Fd in, out;
  Fd words;             // its stderr; empty: none
  std::string command;  // as a user would type it; empty: the agent is a child of ours
};

class AgentLink {
 public:
  enum class Phase {
    queued,     // not started yet, because many others are being started
    arriving,   // no greeting has come yet
    greeted,    // it has arrived, and waits for the others
    preparing,  // its order is on its way
    ready,
    running,
    lost,  // or refused
    closed,
  };

  /// `arrival_limit` is the limit from its start until it greets, and from the order until it is ready.
  AgentLink(std::string host, PrepareMessage order, Duration arrival_limit);
  /// Closes the conversation and waits for the process.
  ~AgentLink();

  const std::string& host() const { return host_; }
  /// True for an agent that is a child of ours, once it has been started.
  bool is_local() const { return is_local_; }
  void start(AgentProcess process);
  /// Waits for an agent that connects by itself, started by `command`.
  void await(std::string command);
  /// The same for an agent that `process` starts alone. The process gets `message` as its input, and if it
  /// ends before the agent has connected, the agent is lost.
  void await(AgentProcess process, const DialMessage& message);
  void arrive(Fd socket);
  Phase phase = Phase::queued;
  /// True if more messages must come before the job can begin.
  bool is_under_way() const { return phase == Phase::arriving || phase == Phase::preparing; }
  /// The result of this_machine() there; empty: unknown.
  const std::string& machine() const { return machine_; }
  /// The version of an agent that has arrived, if it is not our version.
  const std::optional<std::string>& other_version() const { return other_version_; }
  /// The order for the host, until send_order().
  PrepareMessage& order() { return order_; }
  void send_order();
  /// True if frames may still come.
  bool is_open() const { return phase > Phase::queued && phase < Phase::lost; }

  template <class T>
  void send(FrameKind kind, const T& message) {
    channel_.send(static_cast<std::uint8_t>(kind), to_wire(message));
  }
  void send(FrameKind kind) { channel_.send(static_cast<std::uint8_t>(kind), {}); }

  void add_poll_entries(std::vector<pollfd>& entries) const;
  /// False once the other end is gone.
  bool handle(const pollfd& entry);
  std::optional<FrameChannel::Frame> next() { return channel_.next(); }

  /// Returns the time of the next beat, or the time at which silence or arrival takes too long.
  TimePoint deadline() const;
  bool is_late() const { return is_under_way() && Clock::now() >= arrives_until_; }
  /// Sends a beat that is due. False if nothing has been received for too long.
  bool keep_beating();
  /// Called when this process had been stopped for a while.
  void forgive_silence() { heard_at_ = Clock::now(); }
  double silence_limit_s() const { return static_cast<double>(peer_timeout_ms_) / 1000; }
  void take_clock(const ClockMessage& clock);
  /// Converts a time on the agent's clock to ours.
  std::int64_t in_our_time(std::int64_t agent_ns) const { return agent_ns - clock_ahead_ns_; }

  CarriedConnections& connections() { return connections_; }
  /// Stops a stream for which there is no room, or continues it.
  void hold(bool is_error_output, bool is_held);

  /// Announces the end. A caller that closes several links calls this for all before it waits for the first.
  void hang_up();
  void close(TimePoint limit = kNever);
  /// For an agent that does not answer, or that is lost while the process that has started it still runs.
  void kill_process() const;
  /// A description of how the process ended, and its stderr; after close(), which waits for it.
  std::string how_it_ended() const { return process_.how_it_ended(); }
  std::vector<std::string> words() const;
  const std::string& command() const { return command_; }
  std::string program() const { return command_.substr(0, command_.find(' ')); }
  int exit_code() const { return process_.exit_code(); }

 private:
  bool take_greeting();
  TimePoint silent_until() const;

  const std::string host_;
  std::string command_;  // as in AgentProcess
  bool is_local_ = false;
  WatchedProcess process_;
  const std::int64_t peer_timeout_ms_;
  const Duration arrival_limit_;
  TimePoint arrives_until_ = kNever;
  PrepareMessage order_;
  std::string machine_;
  std::optional<std::string> other_version_;
  FrameChannel channel_;
  CarriedConnections connections_;
  bool is_held_[2] = {false, false};
  TimePoint heard_at_ = Clock::now();
  TimePoint beat_at_ = kNever;
  std::int64_t clock_ahead_ns_ = 0;
  std::int64_t shortest_trip_ns_ = INT64_MAX;
  std::string before_;  // the end of the output before the agent's greeting
};

}  // namespace dabke::launcher

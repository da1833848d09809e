// The reports of agents about the ranks of their hosts, and the consequences when an agent is lost.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent_protocol/frame_channel.h"
#include "launcher/agent_protocol/protocol.h"
#include "launcher/reach/agent_link.h"

namespace dabke::launcher {

/// Ranks are identified by numbers from the agent: they need not be ranks of its host.
class AgentReports {
 public:
  virtual ~AgentReports() = default;
  virtual void rank_started(const AgentLink& agent, const StartedMessage& started) = 0;
  virtual void rank_ended(const AgentLink& agent, const EndedMessage& ended) = 0;
  /// Called when nothing of the rank is left.
  virtual void rank_over(const AgentLink& agent, int rank) = 0;
  virtual void states_came(const AgentLink& agent, const StatesMessage& states) = 0;
  virtual void output_came(const AgentLink& agent, const OutputMessage& output) = 0;
  virtual void output_ended(const AgentLink& agent, const OutputMessage& output) = 0;
  virtual void input_taken() = 0;
  /// Called when a batch system has signalled the processes on that host.
  virtual void signalled(const AgentLink& agent, const SignalledMessage& signalled) = 0;

  // The consequences for ranks when agents start or are lost.
  /// Every agent is ready, and is about to start its ranks.
  virtual void all_ready() = 0;
  /// In an elastic job: this agent takes ranks from now on.
  virtual void agent_ready(const AgentLink& agent) = 0;
  /// The agent could not start all of its ranks; the reason is logged.
  virtual void start_failed(const AgentLink& agent) = 0;
  /// The agent was lost before all of its ranks were over; in an elastic job, whatever it had. `lines` are
  /// the log lines for the loss.
  virtual void agent_lost(const AgentLink& agent, const std::vector<std::string>& lines,
                          bool is_srun_lost) = 0;
};

/// Passes a frame that is about ranks to `reports`. False if the frame is about something else, or is not for
/// a launcher.
bool deliver_report(const AgentLink& agent, const FrameChannel::Frame& frame, AgentReports& reports);

/// Passes on the content of a frame; drops a malformed one.
template <class Message, class Take>
void take_as(std::string_view content, Take take) {
  Message message;
  if (from_wire(content, message)) take(message);
}

}  // namespace dabke::launcher

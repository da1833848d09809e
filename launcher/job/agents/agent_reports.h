// What agents report of the ranks of their hosts, and what follows a loss of theirs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent_protocol/frame_channel.h"
#include "launcher/agent_protocol/protocol.h"
#include "launcher/reach/agent_link.h"

namespace dabke::launcher {

/// Ranks are named by numbers that come from the agent: they need not be ranks of its host.
class AgentReports {
 public:
  virtual ~AgentReports() = default;
  virtual void rank_started(const AgentLink& agent, const StartedMessage& started) = 0;
  virtual void rank_ended(const AgentLink& agent, const EndedMessage& ended) = 0;
  /// Nothing of it is left.
  virtual void rank_over(const AgentLink& agent, int rank) = 0;
  virtual void states_came(const AgentLink& agent, const StatesMessage& states) = 0;
  virtual void output_came(const AgentLink& agent, const OutputMessage& output) = 0;
  virtual void output_ended(const AgentLink& agent, const OutputMessage& output) = 0;
  virtual void input_taken() = 0;
  /// A batch system has signalled what runs on that host.
  virtual void signalled(const AgentLink& agent, const SignalledMessage& signalled) = 0;

  // What the start and the losses of agents mean for their ranks.
  /// Every agent is ready, and is about to start its ranks.
  virtual void all_ready() = 0;
  /// The agent could not start all of its ranks; why is logged.
  virtual void start_failed(const AgentLink& agent) = 0;
  /// Some rank of it was not over. `lines`: what is to be logged of the loss.
  virtual void agent_lost(const AgentLink& agent, const std::vector<std::string>& lines,
                          bool is_srun_lost) = 0;
};

/// Hands a frame that is about ranks to `reports`. False: it is about something else, or not a launcher's.
bool deliver_report(const AgentLink& agent, const FrameChannel::Frame& frame, AgentReports& reports);

/// Passes on what a frame contains; one that is malformed is dropped.
template <class Message, class Take>
void take_as(std::string_view content, Take take) {
  Message message;
  if (from_wire(content, message)) take(message);
}

}  // namespace dabke::launcher

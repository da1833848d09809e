#include "launcher/job/agents/agent_reports.h"

namespace dabke::launcher {

bool deliver_report(const AgentLink& agent, const FrameChannel::Frame& frame, AgentReports& reports) {
  const std::string_view content = frame.content;
  switch (static_cast<FrameKind>(frame.kind)) {
    case FrameKind::started:
      take_as<StartedMessage>(content, [&](const auto& started) { reports.rank_started(agent, started); });
      return true;
    case FrameKind::ended:
      take_as<EndedMessage>(content, [&](const auto& ended) { reports.rank_ended(agent, ended); });
      return true;
    case FrameKind::over:
      take_as<RankMessage>(content, [&](const auto& over) { reports.rank_over(agent, over.rank); });
      return true;
    case FrameKind::states:
      take_as<StatesMessage>(content, [&](const auto& states) { reports.states_came(agent, states); });
      return true;
    case FrameKind::output:
      take_as<OutputMessage>(content, [&](const auto& output) { reports.output_came(agent, output); });
      return true;
    case FrameKind::output_end:
      take_as<OutputMessage>(content, [&](const auto& output) { reports.output_ended(agent, output); });
      return true;
    case FrameKind::input_taken: reports.input_taken(); return true;
    case FrameKind::signalled:
      take_as<SignalledMessage>(content, [&](const auto& signalled) { reports.signalled(agent, signalled); });
      return true;
    default: return false;
  }
}

}  // namespace dabke::launcher

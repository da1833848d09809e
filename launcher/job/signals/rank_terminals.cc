#include "launcher/job/signals/rank_terminals.h"

#include <unistd.h>

#include <cstdint>

#include "launcher/process/output_ends.h"
#include "launcher/reach/agent_link.h"
#include "runtime/base/terminal.h"

namespace dabke::launcher {

void RankTerminals::resize() const {
  if (!are_given_) return;
  const TerminalSize whole = terminal_size(STDOUT_FILENO);
  for (const JobRank& rank : ranks_.all()) {
    const TerminalSize size = output_.room_in(rank.rank(), whole);
    if (const int pipe = output_.stdout_pipe(rank.rank()); pipe >= 0) {
      launcher::resize(pipe, size);
    } else if (rank.agent->phase == AgentLink::Phase::running) {
      rank.agent->send(FrameKind::window, WindowMessage{rank.rank(), static_cast<std::int32_t>(size.rows),
                                                        static_cast<std::int32_t>(size.columns)});
    }
  }
}

}  // namespace dabke::launcher

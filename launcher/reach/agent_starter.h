// Brings agents to hosts: some at a time by ssh, or all by one srun; and says why one has not come, or is lost.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "launcher/reach/agent_link.h"
#include "launcher/reach/dialled_agents.h"
#include "launcher/reach/remote_shell.h"
#include "runtime/base/status.h"

namespace dabke::launcher {

class AgentStarter {
 public:
  using Links = std::vector<std::unique_ptr<AgentLink>>;

  explicit AgentStarter(RemoteShell shell) : shell_(std::move(shell)) {}
  /// Agents of other hosts come by these, not by ssh. Before start().
  void dial(std::unique_ptr<DialledAgents> dialled) { dialled_ = std::move(dialled); }

  /// Starts those that are queued, as many as may be under way. The error says which cannot be.
  Status start(const Links& links);
  /// Nobody waits for those that have not come.
  void give_up();
  void add_poll_entries(std::vector<pollfd>& entries) const;
  /// Gives those that have dialled to their links. Lines, the first the cause, where srun has ended before all had.
  std::vector<std::string> take_arrivals(const Links& links, const std::vector<pollfd>& entries);
  /// Lines, the first the cause. `why`: where it is known; else it is what the process that brought the agent says.
  /// `had_arrived`: it had greeted. The link is closed.
  std::vector<std::string> loss(const AgentLink& link, bool had_arrived, const std::string& why);
  /// Whether srun, which has brought all agents, was killed.
  bool lost_srun() const { return dialled_ && !dialled_->how_it_was_killed().empty(); }

 private:
  const RemoteShell shell_;
  std::unique_ptr<DialledAgents> dialled_;
};

}  // namespace dabke::launcher

// Starts agents on hosts: a few at a time by ssh, or by one srun each, or all by one srun. Explains why an
// agent has not come, or is lost.
#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/reach/agent_link.h"
#include "launcher/reach/dialled_agents.h"
#include "launcher/reach/remote_shell.h"

namespace dabke::launcher {

class AgentStarter {
 public:
  using Links = std::vector<std::unique_ptr<AgentLink>>;

  explicit AgentStarter(RemoteShell shell) : shell_(std::move(shell)) {}
  /// Makes agents of other hosts come through `dialled`, not by ssh. Before start().
  void dial(std::unique_ptr<DialledAgents> dialled) { dialled_ = std::move(dialled); }
  using CommandFor = std::function<std::vector<std::string>(const std::string& host)>;
  /// The same with an srun for each agent, so that an agent may be started again after its loss.
  void dial_each(std::unique_ptr<DialledAgents> dialled, CommandFor command_for) {
    dialled_ = std::move(dialled);
    command_for_ = std::move(command_for);
  }

  struct Failure {
    AgentLink* link = nullptr;  // of the agent that cannot be started; null: srun cannot, so none can
    std::string why;            // one line
  };
  /// Starts queued agents, as many at the same time as is allowed. Stops at the first that cannot be started.
  std::optional<Failure> start(const Links& links);
  /// True if the process that has started an agent ends some time after the agent. srun does.
  bool ends_late(const AgentLink& link) const { return command_for_ && !link.is_local(); }
  /// Abandons agents that have not arrived.
  void give_up();
  void add_poll_entries(std::vector<pollfd>& entries) const;
  /// Passes agents that have connected to their links. If srun has ended before all had, returns lines with
  /// the cause first.
  std::vector<std::string> take_arrivals(const Links& links, const std::vector<pollfd>& entries);
  /// Explains a loss in lines, the cause first. `why` is the reason, if it is known; otherwise the stderr of
  /// the process that started the agent gives it. `had_arrived`: the agent had greeted. The link is closed.
  std::vector<std::string> loss(const AgentLink& link, bool had_arrived, const std::string& why);
  /// True if srun, which has started all agents, was killed.
  bool lost_srun() const { return dialled_ && !dialled_->how_it_was_killed().empty(); }
  /// The same, without waiting for its end.
  bool is_srun_killed() const { return dialled_ && dialled_->is_killed(); }

 private:
  const RemoteShell shell_;
  std::unique_ptr<DialledAgents> dialled_;
  CommandFor command_for_;  // the words of srun for one host; empty: one srun starts all agents, or ssh each
};

}  // namespace dabke::launcher

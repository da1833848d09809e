// The agents of a job's hosts: from their start, which has to succeed on all hosts, to the loss of one.
//
// 1. start() starts agents on the hosts, as many at the same time as is allowed.
// 2. When all have greeted, it is known which hosts are one machine. Each agent then gets its order.
// 3. When all are ready, all get `go`. From then on they report their ranks.
// 4. A host that cannot run its part before that refuses the job: no rank of any host is started.
// 5. In an elastic job each agent is for itself: it gets its order when it has greeted, and takes ranks when
//    it is ready. Agents may be added at any time. One that cannot start is lost.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/job/agents/agent_reports.h"
#include "launcher/job/job_log.h"
#include "launcher/job/job_ranks.h"
#include "launcher/reach/agent_link.h"
#include "launcher/reach/agent_starter.h"
#include "runtime/base/clock.h"

namespace dabke::launcher {

class JobAgents {
 public:
  struct Settings {
    double start_timeout_s = 0;
    std::string store;  // its address, for agents that carry connections to it
    bool is_elastic = false;
  };
  /// Stores references to all arguments but the starter. Consequences for ranks are reported to `reports`,
  /// never before start().
  JobAgents(AgentStarter starter, Settings settings, JobLog& log, JobRanks& ranks, AgentReports& reports);

  /// Adds an agent. The caller starts the agent of this host; start() and tick() start the others.
  AgentLink& add(std::string host, PrepareMessage prepare);
  std::size_t size() const { return agents_.size(); }

  /// True once ranks have been started.
  bool is_started() const { return is_started_; }
  /// Returns dabkerun's exit code if some host has refused the job.
  std::optional<int> refused_with() const { return refused_with_; }
  void start();
  /// Called before the ranks are started: none will be.
  void refuse(int exit_code);

  TimePoint deadline() const;
  void add_poll_entries(std::vector<pollfd>& entries) const;
  void handle(const std::vector<pollfd>& entries);
  /// Does what is due: beats, checks for silent or late agents, further starts.
  void tick();

  /// Sends a command for all ranks, as Command of launcher/process/supervisor.h.
  void command(std::int32_t command);
  /// Asks all agents for the states of their ranks' processes. Returns the agents asked. Each answers, or is
  /// lost.
  std::set<const AgentLink*> ask_for_states();
  /// True if srun was killed. The loss of its agents may be still to come.
  bool is_srun_killed() const { return starter_.is_srun_killed(); }
  /// Makes agents stop a stream for which the console has no room.
  void hold(bool is_error_output, bool is_held);
  /// Called when this process is about to be stopped; forgive_silence() is called when it continues.
  void pause();
  void forgive_silence();
  /// Kills the agents that do not answer.
  void kill();

 private:
  void take_frames(AgentLink& agent);
  void take_frame(AgentLink& agent, const FrameChannel::Frame& frame);
  void take_failure(AgentLink& agent, const FailedMessage& failed);
  void give_up(AgentLink& agent, const std::vector<std::string>& lines);
  void open_store_connection(AgentLink& agent, std::int64_t connection);
  void take_arrivals(const std::vector<pollfd>& entries);
  void order_when_greeted();
  void take_ready(AgentLink& agent);
  void merge_machines();
  void go_when_ready();
  void lose(AgentLink& agent, const std::string& why);
  void await_lost_supervisors();

  const Settings settings_;
  JobLog& log_;
  JobRanks& ranks_;
  AgentReports& reports_;
  AgentStarter starter_;  // outlives the links: the end of srun waits for the agents'
  std::vector<std::unique_ptr<AgentLink>> agents_;
  bool is_started_ = false;
  std::optional<int> refused_with_;
  std::optional<TimePoint> look_for_supervisors_at_;  // of an agent of this host that was killed
};

}  // namespace dabke::launcher

// A running job: watches its ranks through their hosts' agents, carries their output and signals, and ends
// them together.
//
// Each part owns its state, and Job::turn() drives it:
//   JobRanks                         which rank runs where
//   JobAgents                        the hosts
//   JobOutput                        the output of the ranks
//   JobSignals                       the signals
//   JobFailures with FailureWatch    failures and hangs
//   JobEnding                        the end of the ranks
//   JobMembers                       in an elastic job: processes that come and go
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/hosts/placement.h"
#include "launcher/job/agents/agent_reports.h"
#include "launcher/job/agents/job_agents.h"
#include "launcher/job/failures/failure_watch.h"
#include "launcher/job/failures/job_failures.h"
#include "launcher/job/failures/report_gatherer.h"
#include "launcher/job/input_carrier.h"
#include "launcher/job/job_ending.h"
#include "launcher/job/job_log.h"
#include "launcher/job/job_members.h"
#include "launcher/job/job_output.h"
#include "launcher/job/job_ranks.h"
#include "launcher/job/signals/job_signals.h"
#include "launcher/job/signals/rank_terminals.h"
#include "launcher/job/signals/terminal_input.h"
#include "launcher/output/console.h"
#include "launcher/process/supervisor.h"
#include "launcher/reach/agent_link.h"
#include "launcher/reach/agent_starter.h"
#include "runtime/base/clock.h"
#include "runtime/base/ended_rank.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

/// One thread with one poll(), the only call that blocks.
class Job final : private AgentReports {
 public:
  struct Settings {
    bool verbose = false;
    bool is_elastic = false;
    bool gives_terminals = false;  // to ranks, as their stdout
    bool shows_figures = false;    // below the output
    std::string store;             // its address, for agents that carry connections to it
    // Empty: not called.
    std::function<void(const EndedRank& ended)> on_end;
    double start_timeout_s = 0;
    std::chrono::milliseconds grace = kGracePeriod, grace_after_term = kGraceAfterTerm;
  };
  /// `signals` is a signalfd of the signals to forward. The job stores a reference to `console`.
  Job(Console& console, int signals, AgentStarter starter, Settings settings);

  Job(const Job&) = delete;  // its parts refer to it
  Job& operator=(const Job&) = delete;

  /// Adds the agent for add_rank(). run() starts agents of other hosts.
  AgentLink& add_agent(std::string host, PrepareMessage prepare) {
    return agents_.add(std::move(host), std::move(prepare));
  }
  /// Called in the order of ranks.
  void add_rank(const RankPlacement& placement, AgentLink& agent, RankOutputs outputs, OutputStyle style);
  /// Makes the job elastic: `members` starts its ranks, and no rank is added. Before run(). `local` is the
  /// agent of this host.
  void let_members_change(JobMembers::Settings members, Meetings& meetings, AgentLink& local);
  /// Runs until every rank has ended and its output is written. Returns dabkerun's exit code.
  int run();
  /// Enables verdicts about hanging ranks, and shows the job's figures when they come. Before run().
  void watch_reports(ReportGatherer& gatherer);
  /// Passes typed input on to rank 0. Before run().
  void pass_input(TerminalInput& input) { input_ = &input; }
  /// Carries the input of rank 0 to its agent. Before run().
  void carry_input(AgentLink& agent, Fd input) { input_carrier_.emplace(agent, std::move(input)); }

 private:
  void turn();
  TimePoint next_deadline() const;
  void add_poll_entries(std::vector<pollfd>& entries);
  void handle_entries(const std::vector<pollfd>& entries);
  void take_figures();
  void show_figures();
  void refresh_summary(TimePoint now);
  void check_time();
  void check_reader(TimePoint now);
  bool is_over() const;
  int conclude();
  Outcome outcome() const;
  std::vector<RankEnd> explained_ends() const;
  /// The word for a number in JobRanks. A process of an elastic job has a rank only while it is a member.
  const char* noun() const { return members_ ? "process" : "rank"; }
  void take_end(const JobRank& rank, RankEnd end);
  void take_over(const JobRank& rank);
  void give_up_unstarted();

  void rank_started(const AgentLink& agent, const StartedMessage& started) override;
  void rank_ended(const AgentLink& agent, const EndedMessage& ended) override;
  void rank_over(const AgentLink& agent, int rank) override;
  void states_came(const AgentLink& agent, const StatesMessage& states) override;
  void output_came(const AgentLink& agent, const OutputMessage& output) override;
  void output_ended(const AgentLink& agent, const OutputMessage& output) override;
  void input_taken() override;
  void signalled(const AgentLink& agent, const SignalledMessage& signalled) override;
  void all_ready() override { terminals_.resize(); }
  void agent_ready(const AgentLink& agent) override;
  void start_failed(const AgentLink& agent) override;
  void agent_lost(const AgentLink& agent, const std::vector<std::string>& lines, bool is_srun_lost) override;

  const Settings settings_;
  Console& console_;
  JobLog log_;
  JobRanks ranks_;
  FailureWatch failure_;
  JobOutput output_;
  JobAgents agents_;
  JobEnding ending_;
  JobFailures failures_;
  RankTerminals terminals_;
  JobSignals signals_;
  std::optional<JobMembers> members_;  // of an elastic job
  std::optional<InputCarrier> input_carrier_;
  TerminalInput* input_ = nullptr;
  ReportGatherer* gatherer_ = nullptr;
  diagnosis::FiguresTable figures_;
  std::string shown_summary_;     // of an elastic job, above the figures
  TimePoint summary_at_{kNever};  // of the next comparison
  bool is_reader_gone_ = false;
};

}  // namespace dabke::launcher

// The processes of an elastic job: starts, kills and announces what the membership decides, and reports what
// becomes of the processes to it.
//
// 1. Each process has a worker number, which frames, JobRanks and JobOutput use as its rank. Its rank changes
//    from epoch to epoch; its lines are shown under the rank of their time.
// 2. A host's agent is started when the first process is to run there, and again after it was lost.
#pragma once

#include <poll.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/elastic/discovery.h"
#include "launcher/elastic/meetings.h"
#include "launcher/elastic/membership.h"
#include "launcher/job/agents/job_agents.h"
#include "launcher/job/job_ending.h"
#include "launcher/job/job_log.h"
#include "launcher/job/job_losses.h"
#include "launcher/job/job_output.h"
#include "launcher/job/job_ranks.h"
#include "launcher/verdict/outcome.h"
#include "runtime/base/clock.h"

namespace dabke::launcher {

class JobMembers {
 public:
  struct Settings {
    MembershipLimits limits;
    std::vector<Host> hosts;  // fixed; empty: they are discovered
    std::optional<Discovery::Settings> discovery;
    std::string here;                // the name of this host in `hosts`
    PrepareMessage order_elsewhere;  // for the agents of other hosts; names no ranks
    OutputStyle style;
    std::string output_directory;  // empty: no files
    bool verbose = false;
    std::string slurm_job;                 // whose srun starts the agents; empty: ssh does
    std::vector<std::string> slurm_hosts;  // that srun reaches, without this one
    std::function<void(const std::string& key, std::string value)> set;  // a value in the job's store
  };
  struct Job {
    JobLog& log;
    JobRanks& ranks;
    JobOutput& output;
    JobAgents& agents;
    JobEnding& ending;
  };

  /// Stores a reference to `meetings`. `local` is the agent of this host, which the caller has started.
  JobMembers(Settings settings, Meetings& meetings, AgentLink& local, Job job);

  /// Starts the job.
  void begin(TimePoint now);
  /// True if no process will be started any more.
  bool is_over() const;
  /// dabkerun's exit code and last lines, once everything has ended.
  Outcome conclude() const;

  void agent_ready(const AgentLink& agent);
  /// Called before the ends of its ranks are reported: none of them is replaced on the same host.
  void agent_lost(const AgentLink& agent, TimePoint now);
  /// Called when the agent has received SIGTERM: the ranks of its host leave in good order.
  void host_leaves(const AgentLink& agent, TimePoint now);
  void take_end(const JobRank& worker, const RankEnd& end, TimePoint now);

  /// The rank of a worker in the current epoch; -1: it has none.
  int rank_of(int worker) const;
  /// One line for live statistics: the epoch and its members, and the processes and slots outside.
  std::string summary(TimePoint now) const;
  /// The members of the current epoch, under their ranks.
  JobRanks current_ranks() const;

  // Events are only noted; tick() carries out what follows from them.
  TimePoint deadline() const;
  void add_poll_entries(std::vector<pollfd>& entries) const;
  void handle(const std::vector<pollfd>& entries, TimePoint now);
  void tick(TimePoint now);

 private:
  bool is_here(const std::string& host) const;
  const std::string& agent_name_of(const std::string& host) const;
  bool is_in_reach(const std::string& host);
  AgentLink& agent_of(const std::string& host);
  void use_hosts(TimePoint now);
  void act(TimePoint now);
  void start(const Membership::Start& start);
  void send_order(const JobRank& worker);
  void kill(const Membership::Kill& kill);
  void watch(const bootstrap::Arrival& arrival) const;
  void open(const Membership::Open& opened, TimePoint now);
  void log_change(const Membership::Open& opened, TimePoint now);
  std::string describe_loss(const bootstrap::LostMember& lost) const;
  void refuse(const Membership::Refuse& refused);
  void take_failure(const std::string& why);
  void end(const Membership::End& end, TimePoint now);

  const Settings settings_;
  Meetings& meetings_;
  const Job job_;
  Membership membership_;
  std::optional<Discovery> discovery_;
  std::map<std::string, AgentLink*> agents_;  // by its name of the host; the newest of each
  std::vector<Host> hosts_;                   // that are listed
  std::set<std::string> leaving_;             // of these, those that received SIGTERM, by their agents' names
  std::set<std::string> out_of_reach_;        // hosts that were listed, and that srun does not reach
  std::map<int, std::string> kill_reasons_;   // by worker
  bootstrap::EpochPlan plan_{.epoch = 0, .members = {}, .lost = {}};
  JobLosses losses_;
  std::optional<RankEnd> last_failure_;  // of a member; `rank` is its worker
  Outcome outcome_;
  bool is_ended_ = false;  // the membership has ended the job
};

}  // namespace dabke::launcher

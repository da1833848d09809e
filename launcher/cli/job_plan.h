// Plans a job from its command line: what starts where, or why nothing starts. Starts no process and opens
// nothing.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/agent_protocol/protocol.h"
#include "launcher/cli/flags/options.h"
#include "launcher/cli/job_hosts.h"
#include "launcher/cli/surroundings.h"
#include "launcher/elastic/discovery.h"
#include "launcher/elastic/membership.h"
#include "launcher/hosts/placement.h"
#include "launcher/output/worker_output.h"
#include "launcher/process/output_ends.h"
#include "launcher/reach/remote_shell.h"
#include "runtime/base/settings/config.h"

namespace dabke::launcher {

/// One host of a job, with its ranks.
struct HostPlan {
  std::string host;
  bool is_here = false;
  /// The order for its agent. The job's store, id and key are still missing, and whether rank 0 has input.
  PrepareMessage order;

  std::vector<RankPlacement> placements() const;
};

/// The plan of an elastic job, instead of placements and parts. The orders name no ranks.
struct ElasticPlan {
  MembershipLimits limits;
  std::optional<Discovery::Settings> discovery;
  PrepareMessage order_here, order_elsewhere;
};

struct JobPlan {
  enum class Kind {
    run,          // by agents
    mpirun,       // mpirun takes over; only `placements` are planned
    description,  // --dry-run
  };
  Kind kind = Kind::run;
  JobHosts hosts;
  std::vector<RankPlacement> placements;
  std::vector<HostPlan> parts;  // in the order of ranks
  std::optional<ElasticPlan> elastic;
  Config config;  // the defaults if all ranks are on this host
  RemoteShell shell;
  StdoutKind stdout_kind = StdoutKind::pipe;
  OutputStyle style;
  bool may_erase = false;  // the terminal accepts control sequences
  std::string timeline;    // the ranks' records are merged into it; empty: none

  std::vector<std::string> names_elsewhere() const;
};

/// The reason why there is no job.
struct JobRefusal {
  int exit_code = 0;
  std::string message;  // one line, with the remedy
};

struct Planning {
  std::vector<std::string> notices;  // for stderr, before any other output
  std::variant<JobPlan, JobRefusal> result;
};

inline constexpr int kUsageError = 2;

/// Checks `surroundings` in the order in which a user expects errors: the command line first, the system's
/// limits last.
Planning plan_job(const Options& options, const Surroundings& surroundings);

}  // namespace dabke::launcher

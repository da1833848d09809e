// From a command line to what is to be started where, or to why nothing is. No process is started here and
// nothing is opened.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/agent_protocol/protocol.h"
#include "launcher/cli/flags/options.h"
#include "launcher/cli/job_hosts.h"
#include "launcher/cli/surroundings.h"
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
  /// What its agent is to run. Store, id and key of the job are not there yet, nor whether rank 0 reads
  /// anything.
  PrepareMessage order;

  std::vector<RankPlacement> placements() const;
};

struct JobPlan {
  enum class Kind {
    run,          // by agents
    mpirun,       // it takes over; only `placements` are planned
    description,  // --dry-run
  };
  Kind kind = Kind::run;
  JobHosts hosts;
  std::vector<RankPlacement> placements;
  std::vector<HostPlan> parts;  // in the order of ranks
  Config config;                // the defaults where all ranks are here
  RemoteShell shell;
  StdoutKind stdout_kind = StdoutKind::pipe;
  OutputStyle style;
  bool may_erase = false;  // the terminal takes control sequences
  std::string timeline;    // what the ranks record is merged into it; empty: nothing is

  std::vector<std::string> names_elsewhere() const;
};

/// Why there is no job.
struct JobRefusal {
  int exit_code = 0;
  std::string message;  // one line, with what to do
};

struct Planning {
  std::vector<std::string> notices;  // for stderr, before anything else
  std::variant<JobPlan, JobRefusal> result;
};

inline constexpr int kUsageError = 2;

/// `surroundings` are asked in the order in which a user expects complaints: the command line first, the
/// system's limits last.
Planning plan_job(const Options& options, const Surroundings& surroundings);

}  // namespace dabke::launcher

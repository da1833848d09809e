// The place of a process in the job, before it has met the others.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"
#include "runtime/bootstrap/elastic/arrival.h"
#include "runtime/bootstrap/other_launchers.h"
#include "runtime/bootstrap/roster.h"
#include "runtime/modules/mpi_session.h"

namespace dabke::bootstrap {

/// The value of a variable, and the name under which it was found.
struct Variable {
  std::string name;
  std::string value;
};

/// DABKE_<name>, or HOROVOD_<name>; an empty variable counts as unset.
std::optional<Variable> look_up(const Environment& environment, std::string_view name);

/// local_rank, local_size, cross_rank and cross_size, as the launcher gave them.
struct HostPlacement {
  int local_rank, local_size, cross_rank, cross_size;
};

struct PlaceInJob {
  int rank = 0;
  int size = 1;
  std::optional<HostPlacement> placement;
  std::string host;
  std::optional<std::string> rendezvous;  // as in DABKE_RENDEZVOUS
  std::optional<Variable> job_id;
  std::optional<Variable> job_key;
  modules::MpiSession* mpi = nullptr;
  bool gathers_dumps = false;
  std::string merges_timeline;
  std::optional<Roster> roster;  // set if the ranks have met already
  /// Set in an elastic job: rank, size and placement come from the plan of an epoch.
  std::optional<WorkerId> worker;
};

/// True if dabkerun has started this process for an elastic job.
bool is_elastic(const Environment& environment);

/// This host's name for the others: DABKE_HOSTNAME, or gethostname().
Result<std::string> host_name(const Environment& environment);

/// The place that the environment gives; a job of one if it gives none. Errors name the variable and the
/// remedy.
Result<PlaceInJob> place_from_environment(const Environment& environment);

}  // namespace dabke::bootstrap

// A job that Slurm has started by itself, with `srun --mpi=pmi2 ./train`. Rank and size come from Slurm's
// PMI-2. Through it the ranks also exchange what makes them a job (runtime/bootstrap/exchange_start.h). All
// else is as under dabkerun.
//
// libpmi2 is loaded at run time and used once in a process: later inits meet in rank 0's store. PMI-2 is
// never finalised, because Slurm takes that for the end of the process while other processes may still be at
// work. So MPI_Init after dabke_init is not supported there. MPI_Init before dabke_init is, and then MPI
// carries the exchange.
#pragma once

#include <optional>

#include "runtime/base/clock.h"
#include "runtime/base/settings/config.h"
#include "runtime/bootstrap/roster.h"
#include "runtime/bootstrap/served_store.h"

namespace dabke::bootstrap {

struct Pmi2Start {
  int rank = 0;
  int size = 1;
  ServedStore store;
  std::optional<Roster> roster;  // set if the ranks have met just now
};

/// Returns nothing if Slurm has not started this process with its PMI-2 as one of several, or if libpmi2 is
/// not installed.
///   errors  timeout if not every task of the step comes; the errors of other tasks
Result<std::optional<Pmi2Start>> start_from_pmi2(const Config& config, const Environment& environment,
                                                 const std::string& host, TimePoint deadline);

}  // namespace dabke::bootstrap

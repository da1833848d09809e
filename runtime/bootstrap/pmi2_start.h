// A job that Slurm has started by itself, `srun --mpi=pmi2 ./train`: rank and size come from its PMI-2, and through that
// the ranks exchange what makes them a job (runtime/bootstrap/exchange_start.h). Then all goes as under dabkerun.
//
// libpmi2 is loaded at run time. It is spoken to once in a process: later inits meet in rank 0's store. PMI-2 is never
// finalised, because Slurm takes that for the end of the process, and others may still be at work. So an MPI_Init that
// comes after dabke_init is not supported there; one that comes before is, and then MPI carries the exchange.
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
  std::optional<Roster> roster;  // when the ranks have met just now
};

/// Nothing where Slurm has not started this process with its PMI-2 as one of several, or libpmi2 is not there.
///   errors  timeout where not every task of the step comes; what other tasks say
Result<std::optional<Pmi2Start>> start_from_pmi2(const Config& config, const Environment& environment,
                                                 const std::string& host, TimePoint deadline);

}  // namespace dabke::bootstrap

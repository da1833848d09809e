// A job that MPI has started, by `mpirun -np 4 ./train` or because the application called MPI_Init or passed
// a communicator. Rank, size and the place to meet come from MPI; all else is as under dabkerun.
//
// In the first init over MPI_COMM_WORLD or that communicator, MPI carries the exchange by which the ranks
// become a job (runtime/bootstrap/exchange_start.h). Rank 0 then serves the store until its process ends.
// Later inits over the same communicator meet in that store, because MPI may not be called on every thread.
#pragma once

#include <optional>

#include "runtime/base/settings/config.h"
#include "runtime/bootstrap/roster.h"
#include "runtime/bootstrap/served_store.h"
#include "runtime/modules/mpi_session.h"

namespace dabke::bootstrap {

struct MpiStart {
  modules::MpiSession* session = nullptr;
  int rank = 0;
  int size = 1;
  ServedStore store;
  std::optional<Roster> roster;  // set if the ranks have met already
};

/// Returns nothing if MPI has not started this process.
///   comm  the address of an MPI_Comm of the application; null: MPI_COMM_WORLD, if MPI started the process
Result<std::optional<MpiStart>> start_from_mpi(const Config& config, const Environment& environment,
                                               const void* comm, const std::string& host, TimePoint deadline);

/// Marks that the job uses MPI from now on. If MPI can only carry the meeting of the ranks, rank 0 logs a
/// warning in the first such job of the process.
void begin_mpi_job(modules::MpiSession& session, const World& world, const Log& log);

/// The setting that makes MPI carry messages or data of a job, such as "DABKE_CONTROLLER=mpi"; nothing if
/// there is none.
std::optional<std::string_view> setting_that_uses_mpi(const Config& config);

}  // namespace dabke::bootstrap

// A job that MPI has started, by `mpirun -np 4 ./train` or because the application called MPI_Init or passed
// a communicator: rank, size and where to meet come from MPI, and all else goes as under dabkerun.
//
// The first init makes MPI of use, collectively over MPI_COMM_WORLD or that communicator:
//   1. Every rank tells its host.
//   2. Rank 0 makes the job's id and key and serves the rendezvous store, as long as its process lives.
//   3. It tells all ranks the three.
// Later inits over the same communicator meet in the same store; the store counts the epochs.
#pragma once

#include <optional>

#include "runtime/base/config.h"
#include "runtime/transport/job_secret.h"
#include "runtime/transport/mpi_session.h"

namespace dabke {

struct MpiStart {
  MpiSession* session = nullptr;
  int rank = 0;
  int size = 1;
  std::string rendezvous;       // as in DABKE_RENDEZVOUS
  std::string job_id, job_key;  // as in DABKE_JOB_ID and DABKE_JOB_KEY
};

/// Nothing when MPI has not started this process.
///   comm  the address of an MPI_Comm of the application; null: MPI_COMM_WORLD, if MPI started the process
Result<std::optional<MpiStart>> start_from_mpi(const Config& config, const Environment& environment,
                                               const void* comm, const std::string& host, TimePoint deadline);

}  // namespace dabke

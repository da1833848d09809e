// How a process learns who takes part in the job: from its environment and the rendezvous store, from MPI, or from
// an exchange that the program provides.
//
// What the launcher (or the user) sets; each of the first six falls back to HOROVOD_<name>:
//   DABKE_RANK, DABKE_SIZE               this process's place; none at all means a world of one
//   DABKE_LOCAL_RANK, DABKE_LOCAL_SIZE,  all four or none; none: found from the host names
//   DABKE_CROSS_RANK, DABKE_CROSS_SIZE
//   DABKE_RENDEZVOUS                     http://host:port of dabkerun, or file:/absolute/directory that all
//                                        ranks see
//   DABKE_JOB_ID, DABKE_JOB_KEY          32 and 64 hexadecimal digits; with file: the first rank may make
//                                        them
//   DABKE_HOSTNAME                       this host's name for the others; gethostname() unless set
//   DABKE_GATHERS_DUMPS=1                dabkerun reads the dumps of a hang from its store
//   DABKE_MERGES_TIMELINE=trace.json     dabkerun makes one trace of this timeline's records as the job ends
//
// Where DABKE_RENDEZVOUS alone is set, rank and size come from another launcher's variables: torchrun, Slurm,
// or one of MPI (runtime/bootstrap/other_launchers.h). Where such a launcher has started several processes and nothing
// says where they meet, init fails.
//
// Where rank, size and rendezvous are all unset and srun --mpi=pmi2 has started the process, with no MPI in it, Slurm's
// PMI-2 tells them (runtime/bootstrap/pmi2_start.h).
//
// Where rank, size and rendezvous are all unset and MPI has started the process, MPI tells them; where the
// application passes a communicator, it tells them whatever the environment says (runtime/bootstrap/mpi_place.h).
//
// Where the program brings an allgather of its own, that tells all, and the environment nothing
// (runtime/bootstrap/exchange_start.h).
//
// Else they meet in the store, under the job's id (runtime/bootstrap/roster.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/log.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/wait_check.h"
#include "runtime/base/world.h"
#include "runtime/bootstrap/exchange_start.h"
#include "runtime/modules/mpi_session.h"
#include "runtime/store/store.h"

namespace dabke::bootstrap {

struct Bootstrapped {
  World world;
  std::shared_ptr<store::Store> store;  // this job's and epoch's
  modules::MpiSession* mpi = nullptr;   // when MPI has started the job
  std::string network;         // rank 0's, of a job on several hosts: which address of each is used, in words
  bool gathers_dumps = false;  // whoever serves the store reads the dumps of a hang there
  /// How the process of a rank has ended, as a shell gives it, once whoever has started it says so. Nothing: not by the
  /// deadline, or it is another process. Empty: nobody would say. Waits for the store; from any thread.
  std::function<std::optional<int>(Rank rank, TimePoint deadline)> exit_status_of;
  std::string merges_timeline;  // of whose records dabkerun makes one trace; empty: none
};

/// As `config` wants it.
Log log_of_rank(const Config& config, Rank rank);

/// Waits for the other ranks until config.start_timeout, and says for whom when that takes long. Errors name the
/// variable or the ranks, and the remedy. `mpi_comm` is the address of an MPI_Comm of the application, or null. `check`, if it
/// lives, is asked by this thread whether to go on, also by the waits in the job's store until init is over.
Result<Bootstrapped> bootstrap(const Config& config, const Environment& environment,
                               const void* mpi_comm = nullptr, const std::weak_ptr<WaitCheck>& check = {});

/// Joins the job of the group's members. The environment is asked for this host's name alone. Waits as long as
/// the group's allgather does.
Result<Bootstrapped> bootstrap(const Config& config, const Environment& environment,
                               const ExchangeGroup& group, const std::weak_ptr<WaitCheck>& check = {});

/// Called at the end of a clean epoch, once this rank will not read the store any more. Never waits for other
/// ranks, and for the store a second at most: whoever leaves last removes what the epoch left in the store.
/// After a crash the next epoch's rank 0 does.
Status leave_epoch(const Bootstrapped& joined);

}  // namespace dabke::bootstrap

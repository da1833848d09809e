// Finds the ranks of the job: from the environment and the rendezvous store, from MPI or Slurm, or from an
// exchange that the program provides.
//
// Variables that the launcher or the user sets; each of the first six falls back to HOROVOD_<name>:
//   DABKE_RANK, DABKE_SIZE               this process's rank and the size; neither: a world of one
//   DABKE_LOCAL_RANK, DABKE_LOCAL_SIZE,  all four or none; none: found from the host names
//   DABKE_CROSS_RANK, DABKE_CROSS_SIZE
//   DABKE_RENDEZVOUS                     http://host:port of dabkerun, or file:/absolute/directory that all
//                                        ranks see
//   DABKE_JOB_ID, DABKE_JOB_KEY          32 and 64 hexadecimal digits; with file: the first rank may make
//                                        them
//   DABKE_HOSTNAME                       this host's name for the others; gethostname() unless set
//   DABKE_GATHERS_DUMPS=1                dabkerun reads the dumps of a hang from its store
//   DABKE_MERGES_TIMELINE=trace.json     dabkerun merges this timeline's records into one trace at the end
//   DABKE_ELASTIC_WORKER                 the number of this process in an elastic job, never used twice
//
// In an elastic job, rank, size and placement come from the plan of each epoch (elastic/meeting.h), and the
// variables above that have them are not read. MPI takes no part: it ends with the first rank that is lost.
//
// If only DABKE_RENDEZVOUS is set, rank and size come from the variables of another launcher: torchrun, Slurm
// or MPI (runtime/bootstrap/other_launchers.h). Init fails if such a launcher has started several processes
// and nothing gives them a place to meet.
//
// If rank, size and rendezvous are all unset, they may come from Slurm's PMI-2. That needs a start by srun
// --mpi=pmi2, and no MPI in the process (runtime/bootstrap/pmi2_start.h).
//
// If all three are unset and MPI has started the process, they come from MPI. If the application passes a
// communicator, they come from that, whatever the environment contains (runtime/bootstrap/mpi_place.h).
//
// If the program brings an allgather of its own, all comes from that, and nothing from the environment
// (runtime/bootstrap/exchange_start.h).
//
// In all other cases the ranks meet in the store, under the job's id (runtime/bootstrap/roster.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "runtime/base/log.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/wait_check.h"
#include "runtime/base/world.h"
#include "runtime/bootstrap/elastic/meeting.h"
#include "runtime/bootstrap/exchange_start.h"
#include "runtime/call/process_set_list.h"
#include "runtime/modules/mpi_session.h"
#include "runtime/store/store.h"

namespace dabke::bootstrap {

struct Bootstrapped {
  World world;
  std::shared_ptr<store::Store> store;  // this job's and epoch's
  modules::MpiSession* mpi = nullptr;   // set if MPI has started the job
  std::string network;         // on rank 0 of a job on several hosts: the address of each host, in words
  bool gathers_dumps = false;  // the server of the store reads the dumps of a hang there
  /// The exit status of a rank's process, as a shell gives it. The launcher reports it in the store. Nothing
  /// if there is no report by the deadline, or if the report is about another process. Empty if no launcher
  /// reports. Waits for the store; from any thread.
  std::function<std::optional<int>(Rank rank, TimePoint deadline)> exit_status_of;
  std::string merges_timeline;         // the timeline whose records dabkerun merges; empty: none
  std::optional<EpochPlan> plan = {};  // of an elastic job
  FirstSets process_sets = {};         // of an elastic job
  /// On rank 0 of an elastic job: the job's part of the store, where changes are announced. Nothing else uses
  /// this connection.
  std::shared_ptr<store::Store> announcements = {};
};

/// The way of a process of an elastic job from epoch to epoch.
struct Visit {
  std::uint64_t number = 0;                  // meetings to which it has come
  std::uint64_t epoch = 0;                   // the last epoch in which it had a place; 0: it is new
  std::optional<std::uint64_t> commit = {};  // the number of its newest commit; none: it has no state
  std::uint64_t repeated_steps = 0;          // training steps since that commit that were lost
  FirstSets process_sets = {};               // that it has in `epoch`
};

/// A log with the settings of `config`.
Log log_of_rank(const Config& config, Rank rank);

/// Waits for the other ranks until config.start_timeout, and logs which ranks are absent if that takes long.
/// Errors name the variable or the ranks, and the remedy.
///   mpi_comm  the address of an MPI_Comm of the application, or null
///   check     if it is alive, this thread calls it to decide whether to go on, also in waits for the store
///             until init is over
Result<Bootstrapped> bootstrap(const Config& config, const Environment& environment,
                               const void* mpi_comm = nullptr, const std::weak_ptr<WaitCheck>& check = {});

/// Joins the job of the group's members. Reads only this host's name from the environment. Waits as long as
/// the group's allgather does.
Result<Bootstrapped> bootstrap(const Config& config, const Environment& environment,
                               const ExchangeGroup& group, const std::weak_ptr<WaitCheck>& check = {});

/// Joins the next epoch of an elastic job. Counts the visit, and notes the epoch and its process sets as soon
/// as this process has a place in it, even if the start fails after that. Waits for the place as
/// long as dabkerun lets it.
///   errors  aborted, if the job went on without this process; mismatch of process sets; unsupported, if a
///           setting needs MPI
Result<std::variant<Bootstrapped, LeftInOrder>> bootstrap(const Config& config,
                                                          const Environment& environment, Visit& visit,
                                                          const std::weak_ptr<WaitCheck>& check = {});

/// Called at the end of a clean epoch, once this rank will not read the store again. Never waits for other
/// ranks, and at most a second for the store. The last rank to leave removes the epoch's entries from the
/// store. After a crash, the next epoch's rank 0 removes them.
Status leave_epoch(const Bootstrapped& joined);

}  // namespace dabke::bootstrap

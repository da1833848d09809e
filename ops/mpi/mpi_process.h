// MPI in this process, through the library for which this module was compiled.
//
// Threads: enter() and allgather() call MPI on the thread that calls dabke_init, whatever the thread level.
// All other functions may be called from any thread of ours, and need MPI_THREAD_MULTIPLE. Below that level,
// an application that initialised MPI may be inside a call of its own at any time, and no lock of ours can
// exclude it.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <chrono>
#include <list>
#include <mutex>

#include "ops/mpi/mpi_gate.h"
#include "runtime/base/threads/owned.h"
#include "runtime/modules/mpi_session.h"

namespace dabke::ops {

/// Returns ok, or an error with the MPI library's text.
Status mpi_status(const char* call, int code);

struct MpiCommTraits {
  using Raw = MPI_Comm;
  static Raw none() { return MPI_COMM_NULL; }
  static void close(Raw comm) { MPI_Comm_free(&comm); }
};
using MpiComm = Owned<MpiCommTraits>;

/// Spins a little, then yields, then sleeps: with more ranks than cores, a waiting rank must free its core.
class RetryPace {
 public:
  RetryPace() = default;
  /// Returns the pace for data among ranks that have all arrived: longer sleeps would delay the data. MPI
  /// moves a large message in steps, some of 32 KB, and each step needs a call on both sides.
  static RetryPace while_data_moves() { return RetryPace(kBrief); }
  void wait();

 private:
  using Microseconds = std::chrono::microseconds;
  static constexpr Microseconds kBrief{50}, kLong{500};
  explicit RetryPace(Microseconds longest) : longest_(longest) {}

  int turns_ = 0;
  Microseconds longest_ = kLong;
};

/// A communicator of the application (or MPI_COMM_WORLD) whose ranks form a job, with our own objects for it.
/// Exists until the process ends, because the next init may use the same communicator.
struct MpiMembership {
  /// One allgather, from its request until the ranks have agreed.
  struct Gathering {
    std::vector<char> mine, all;
    bool is_done = false;
  };

  /// Lets MPI work on the current request, and starts the next one: the duplicate, then allgather number
  /// `index` with `mine`. True once that allgather has ended.
  Result<bool> advance(std::size_t index, std::span<const char> mine);
  /// The name in messages to the user: "MPI_COMM_WORLD".
  const char* name() const;

  MPI_Comm theirs = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  // Our duplicates, never freed by us: MPI_Finalize frees them. They keep our messages apart from the
  // application's.
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm control = MPI_COMM_NULL;  // for the ports, made with the first port
  bool control_is_made = false;
  MPI_Request request = MPI_REQUEST_NULL;
  bool is_duplicated = false;  // true also while it is being duplicated
  bool has_met = false;        // all ranks have finished their allgathers once
  // Not a vector of gatherings: MPI writes into the last one.
  std::list<Gathering> gatherings;
  std::size_t asked = 0;  // number of allgathers since enter()
  std::string agreed;
};

class MpiProcess final : public modules::MpiSession {
 public:
  std::string library() const override;
  Result<modules::MpiPlace> enter(const void* comm) override;
  Status allgather(std::span<const char> mine, std::span<char> all, TimePoint deadline) override;
  void agree(std::string note) override;
  bool any_thread() const override { return level_ == MPI_THREAD_MULTIPLE; }
  std::string thread_level() const override;
  bool takes_cuda_memory() const override;
  Result<std::unique_ptr<modules::MpiCommunicator>> make_communicator(
      std::span<const int> ranks, int tag, const std::function<Status()>& interrupted) override;
  Result<std::unique_ptr<modules::MpiPort>> open_port(std::uint64_t epoch, TimePoint deadline) override;
  bool job_begins() override;
  void job_ended_well() override { job_runs_ = false; }
  void on_finalize(std::function<void()> callback) override;

  /// Called at the exit of the process.
  void finalize();

 private:
  Status initialise(bool may_start);
  Status watch_finalize();
  void mpi_ends();
  Result<MpiMembership*> membership_of(const void* comm);
  Result<MpiMembership*> remembered(MPI_Comm comm);

  std::mutex mutex_;  // one join, new communicator or new port at a time
  MpiGate gate_;
  std::mutex finalize_mutex_;
  std::function<void()> on_finalize_;  // under finalize_mutex_
  bool is_ours_ = false;
  bool job_runs_ = false;
  bool had_job_ = false;
  int level_ = MPI_THREAD_SINGLE;
  int self_keyval_ = MPI_KEYVAL_INVALID;  // the attribute that MPI_Finalize deletes
  int keyval_ = MPI_KEYVAL_INVALID;       // where communicators of the application store their membership
  MpiMembership world_;
  std::vector<std::unique_ptr<MpiMembership>> others_;
  MpiMembership* current_ = &world_;
};

/// The gate must outlive the communicator and the port.
std::unique_ptr<modules::MpiCommunicator> make_mpi_communicator(MpiComm comm, MpiGate& gate);
std::unique_ptr<modules::MpiPort> make_mpi_port(MPI_Comm comm, int tag, MpiGate& gate);

}  // namespace dabke::ops

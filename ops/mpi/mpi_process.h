// MPI in this process, by the library that this module was compiled for.
//
// Threads: enter() and allgather() call MPI on the thread that calls dabke_init, whatever the thread level. All else may come
// from any thread of ours and needs MPI_THREAD_MULTIPLE: below it an application that initialised MPI may be
// inside a call of its own at any time, and no lock of ours could keep the two apart.
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

/// ok, or what the MPI library says.
Status mpi_status(const char* call, int code);

struct MpiCommTraits {
  using Raw = MPI_Comm;
  static Raw none() { return MPI_COMM_NULL; }
  static void close(Raw comm) { MPI_Comm_free(&comm); }
};
using MpiComm = Owned<MpiCommTraits>;

/// Spins a little, then yields, then sleeps: with more ranks than cores whoever waits must make room.
class RetryPace {
 public:
  RetryPace() = default;
  /// For data among ranks that have come: longer sleeps would hold it up. MPI moves a large message in steps, some of
  /// 32 KB, each of which needs a call on both sides.
  static RetryPace while_data_moves() { return RetryPace(kBrief); }
  void wait();

 private:
  using Microseconds = std::chrono::microseconds;
  static constexpr Microseconds kBrief{50}, kLong{500};
  explicit RetryPace(Microseconds longest) : longest_(longest) {}

  int turns_ = 0;
  Microseconds longest_ = kLong;
};

/// A communicator of the application's (or MPI_COMM_WORLD) whose ranks make a job, and what of ours belongs
/// to it. There until the process ends, because the next init may come over the same one.
struct MpiMembership {
  /// One allgather, from when it is asked for until the ranks have agreed.
  struct Gathering {
    std::vector<char> mine, all;
    bool is_done = false;
  };

  /// Lets MPI work on what is under way, and begins what is next: the duplicate, then `mine` as allgather
  /// number `index`. True once that has ended.
  Result<bool> advance(std::size_t index, std::span<const char> mine);
  /// The name for messages to the user: "MPI_COMM_WORLD".
  const char* name() const;

  MPI_Comm theirs = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  // Ours, and never freed: MPI_Finalize does that. No message of ours meets one of the application's.
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm control = MPI_COMM_NULL;  // the ports', made for the first
  bool control_is_made = false;
  MPI_Request request = MPI_REQUEST_NULL;
  bool is_duplicated = false;  // or it is under way
  bool has_met = false;        // all ranks have ended their allgathers once
  // Not a vector of them: MPI writes into the last one.
  std::list<Gathering> gatherings;
  std::size_t asked = 0;  // allgathers since enter()
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
  int keyval_ = MPI_KEYVAL_INVALID;       // where communicators of the application remember their membership
  MpiMembership world_;
  std::vector<std::unique_ptr<MpiMembership>> others_;
  MpiMembership* current_ = &world_;
};

/// The gate must outlive them.
std::unique_ptr<modules::MpiCommunicator> make_mpi_communicator(MpiComm comm, MpiGate& gate);
std::unique_ptr<modules::MpiPort> make_mpi_port(MPI_Comm comm, int tag, MpiGate& gate);

}  // namespace dabke::ops

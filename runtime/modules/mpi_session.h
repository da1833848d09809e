// MPI as the library uses it; a module implements it for one MPI (ops/mpi/).
//
// MPI moves only bytes. Our own kernels reduce them, so every dtype works in the same way, and an element is
// reduced in the same order on every MPI.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace dabke::modules {

/// Ranks with a communicator of their own. Each start_ begins one collective, which has ended when test()
/// returns true; one at a time. Memory and counts must stay until then. Counts and offsets are in bytes.
class MpiCommunicator {
 public:
  virtual ~MpiCommunicator() = default;
  virtual Status start_broadcast(std::byte* data, int bytes, int root) = 0;
  virtual Status start_allgather(const std::byte* send, int bytes, std::byte* receive,
                                 std::span<const int> counts, std::span<const int> offsets) = 0;
  virtual Status start_alltoall(const std::byte* send, std::span<const int> send_counts,
                                std::span<const int> send_offsets, std::byte* receive,
                                std::span<const int> receive_counts,
                                std::span<const int> receive_offsets) = 0;
  virtual Result<bool> test() = 0;
  /// Nobody will wait for the collective under way. Its memory and the communicator stay until the process
  /// ends, because MPI can cancel neither.
  virtual void forsake() = 0;
};

/// Messages between two ranks, in order. Nothing blocks: MPI does nothing by itself, so a thread that waits
/// must call again. One thread at a time. Messages that have not ended when the port is destroyed are left to
/// MPI, with their memory.
class MpiPort {
 public:
  virtual ~MpiPort() = default;
  /// Begins to send a copy of `message`. True: MPI has all of it. As far as MPI reports, it then arrives even
  /// if this process ends or never calls MPI again.
  virtual Result<bool> send(int rank, std::span<const std::byte> message) = 0;
  /// The next message of `rank`, once all of it has come; valid until the next call for that rank.
  virtual Result<std::optional<std::span<const std::byte>>> receive(int rank) = 0;
  struct Progress {
    std::size_t sends = 0;  // still under way
    int failed_rank = -1;   // a send to it has failed, which is reported once; -1: none
    Status failure;
  };
  /// Lets MPI work on the messages under way.
  virtual Progress progress() = 0;
  /// Nobody will ask for messages under way with `rank` any more.
  virtual void forget(int rank) = 0;
};

struct MpiPlace {
  int rank = 0;
  int size = 1;
  std::string agreed;  // the note that agree() received over this communicator; empty: none yet
};

/// MPI in this process. There is one session, and it outlives every init. MPI is finalised when the process
/// exits, and only if it was initialised here and the last job that used it ended well.
class MpiSession {
 public:
  virtual ~MpiSession() = default;
  /// The name and version of the library, such as "MPICH 4.0.2".
  virtual std::string library() const = 0;
  /// The place of this process in `comm`, the address of an MPI_Comm of the application. Null:
  /// MPI_COMM_WORLD, and MPI is initialised unless it already is. The functions below use the communicator
  /// entered last.
  virtual Result<MpiPlace> enter(const void* comm) = 0;
  /// Every rank gives `mine` and gets the blocks of all in rank order, over a communicator of our own. The
  /// n-th call since enter() is the n-th since the ranks have agreed. A call that ended before returns its
  /// former result. A call that was under way when a deadline was over goes on.
  virtual Status allgather(std::span<const char> mine, std::span<char> all, TimePoint deadline) = 0;
  /// All ranks have finished their allgathers, and have agreed on `note`, which later enter()s return. Empty:
  /// they have agreed that the start failed.
  virtual void agree(std::string note) = 0;
  /// True if threads of ours may call MPI whatever the application does: the thread level is
  /// MPI_THREAD_MULTIPLE.
  virtual bool any_thread() const = 0;
  virtual std::string thread_level() const = 0;
  /// True if MPI reports that it takes pointers to the memory of CUDA devices; false if it cannot be asked.
  /// Called after enter().
  virtual bool takes_cuda_memory() const = 0;
  /// Collective over `ranks`, in one order on all of them. While it waits for the others it calls
  /// `interrupted`, and ends with its error.
  virtual Result<std::unique_ptr<MpiCommunicator>> make_communicator(
      std::span<const int> ranks, int tag, const std::function<Status()>& interrupted) = 0;
  /// A port between all ranks. Collective the first time. Messages of another epoch never come out of it.
  virtual Result<std::unique_ptr<MpiPort>> open_port(std::uint64_t epoch, TimePoint deadline) = 0;
  /// job_begins(): a job uses MPI from now on; true for the first job of the process. job_ended_well(): that
  /// job has ended well. Between the two the process must not wait for its peers at exit.
  virtual bool job_begins() = 0;
  virtual void job_ended_well() = 0;
  /// Sets the function to be called when the application calls MPI_Finalize, on its thread, while MPI still
  /// works. After that every call of communicators and ports fails. Empty: none. Not called below
  /// MPI_THREAD_MULTIPLE.
  virtual void on_finalize(std::function<void()> callback) = 0;
};

/// Checks that MPI can do what `setting` ("DABKE_CONTROLLER=mpi") asks for. Errors give the reason and the
/// remedy. A null session: MPI has not started the job.
Status mpi_can_serve(const MpiSession* session, std::string_view setting);

}  // namespace dabke::modules

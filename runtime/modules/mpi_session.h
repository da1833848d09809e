// MPI as the library sees it; a module implements it for one MPI (ops/mpi/).
//
// All of it is about bytes: what is added, and how, is our own kernels' business, so every dtype works alike
// and an element is reduced in the same order on every MPI.
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

/// Ranks that have their own communicator. Each start_ begins one collective, which is over when test() says
/// so; one at a time. Memory and counts must stay until then. Counts and offsets are in bytes.
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
  /// What is under way will never be waited for: its memory and the communicator stay until the process ends,
  /// because MPI can cancel neither.
  virtual void forsake() = 0;
};

/// Messages between two ranks, in order. Nothing blocks: MPI does nothing by itself, so whoever waits calls
/// again. One thread at a time. What has not ended when the port goes is left to MPI, with its memory.
class MpiPort {
 public:
  virtual ~MpiPort() = default;
  /// Begins to send a copy of `message`. True: MPI has all of it, and whether this process lives on or calls
  /// MPI again makes no difference to it, as far as MPI tells.
  virtual Result<bool> send(int rank, std::span<const std::byte> message) = 0;
  /// The next message of `rank`, when all of it is here; valid until the next call for that rank.
  virtual Result<std::optional<std::span<const std::byte>>> receive(int rank) = 0;
  struct Progress {
    std::size_t sends = 0;  // under way
    int failed_rank = -1;   // a send to it has failed, each is told once; -1: none has
    Status failure;
  };
  /// Lets MPI work on what is under way.
  virtual Progress progress() = 0;
  /// Nothing that is under way with `rank` will be asked for any more.
  virtual void forget(int rank) = 0;
};

struct MpiPlace {
  int rank = 0;
  int size = 1;
  std::string agreed;  // what agree() was told over this communicator; empty: nothing yet
};

/// MPI in this process. There is one, and it outlives every init: it is finalised at the exit of the process,
/// and only if it was initialised here and the last job that used it ended well.
class MpiSession {
 public:
  virtual ~MpiSession() = default;
  /// "MPICH 4.0.2"
  virtual std::string library() const = 0;
  /// This process's place in `comm`, the address of an MPI_Comm of the application. Null: MPI_COMM_WORLD, and
  /// MPI is initialised unless it is. All that follows is about the communicator entered last.
  virtual Result<MpiPlace> enter(const void* comm) = 0;
  /// Every rank gives `mine` and gets those of all in rank order, over a communicator of our own. The n-th since
  /// enter() is the n-th since the ranks have agreed: one that has ended before gives what it gave then, and
  /// one that was under way when a deadline was over goes on.
  virtual Status allgather(std::span<const char> mine, std::span<char> all, TimePoint deadline) = 0;
  /// All ranks have come to an end with their allgathers, and later enter()s tell `note`, on which they have
  /// agreed. Empty: they have agreed that it was not to be.
  virtual void agree(std::string note) = 0;
  /// Whether threads of ours may call MPI whatever the application does: the thread level is
  /// MPI_THREAD_MULTIPLE.
  virtual bool any_thread() const = 0;
  virtual std::string thread_level() const = 0;
  /// Whether MPI says that it takes pointers to the memory of CUDA devices; false where it cannot be asked. After enter().
  virtual bool takes_cuda_memory() const = 0;
  /// Collective over `ranks`, in one order on all of them. Ends with what `interrupted` says, which is asked
  /// while waiting for the others to come.
  virtual Result<std::unique_ptr<MpiCommunicator>> make_communicator(
      std::span<const int> ranks, int tag, const std::function<Status()>& interrupted) = 0;
  /// A port between all ranks. Collective the first time. Messages of another epoch never come out of it.
  virtual Result<std::unique_ptr<MpiPort>> open_port(std::uint64_t epoch, TimePoint deadline) = 0;
  /// A job uses MPI from now on; it has ended well. In between the process must not wait for its peers at
  /// exit. True for the first job of the process.
  virtual bool job_begins() = 0;
  virtual void job_ended_well() = 0;
  /// Called when the application calls MPI_Finalize, on its thread, while MPI still works; afterwards every
  /// call of communicators and ports is an error. Empty: nobody. Not told below MPI_THREAD_MULTIPLE.
  virtual void on_finalize(std::function<void()> callback) = 0;
};

/// Whether what `setting` ("DABKE_CONTROLLER=mpi") asks for is possible; errors say why not, and what to do.
/// Null: MPI has not started the job.
Status mpi_can_serve(const MpiSession* session, std::string_view setting);

}  // namespace dabke::modules

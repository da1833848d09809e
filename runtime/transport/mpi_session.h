// MPI as the library sees it; a module implements it for one MPI (ops/mpi/).
//
// All of it is about bytes: what is added, and how, is our own kernels' business, so every dtype works alike
// and an element is reduced in the same order on every MPI.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace dabke {

/// Ranks that have their own communicator. Each start_ begins one collective, which is over when test() says
/// so; one at a time. Memory and counts must stay until then. Counts and offsets are in bytes.
class MpiCommunicator {
 public:
  virtual ~MpiCommunicator() = default;
  virtual Status start_barrier() = 0;
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

struct MpiPlace {
  int rank = 0;
  int size = 1;
  std::string note;  // rank 0's, on every rank
};

/// MPI in this process. There is one, and it outlives every init: it is finalised at the exit of the process,
/// and only if it was initialised here and the last job that used it ended well.
class MpiSession {
 public:
  virtual ~MpiSession() = default;
  /// "MPICH 4.0.2"
  virtual std::string library() const = 0;
  /// Initialises MPI unless it is, makes a communicator of our own, and tells every rank what rank 0 says
  /// when it knows all hosts. Collective over MPI_COMM_WORLD the first time; later it returns what was agreed
  /// then. After a timeout it may be called again and goes on where it was.
  virtual Result<MpiPlace> join(
      const std::string& host,
      const std::function<Result<std::string>(const std::vector<std::string>& hosts)>& note,
      TimePoint deadline) = 0;
  virtual bool has_joined() const = 0;
  /// Whether threads of ours may call MPI whatever the application does: the thread level is
  /// MPI_THREAD_MULTIPLE.
  virtual bool any_thread() const = 0;
  virtual std::string thread_level() const = 0;
  /// Collective over `ranks` (of MPI_COMM_WORLD), in one order on all of them. Ends with what `interrupted`
  /// says, which is asked while waiting for the others to come.
  virtual Result<std::unique_ptr<MpiCommunicator>> make_communicator(
      std::span<const int> ranks, int tag, const std::function<Status()>& interrupted) = 0;
  /// A job uses MPI from now on; it has ended well. In between the process must not wait for its peers at
  /// exit.
  virtual void job_begins() = 0;
  virtual void job_ended_well() = 0;
};

}  // namespace dabke

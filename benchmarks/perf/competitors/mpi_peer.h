// MPI, called directly. A process can hold only one MPI, and dabke-perf itself is linked to none. So each MPI
// has a module, perf-mpich.so or perf-openmpi.so. It is loaded in a job that this MPI's launcher has started.
#pragma once

#include <string>

#include "benchmarks/perf/competitors/call.h"
#include "runtime/base/status.h"

namespace dabke::perf {

class MpiPeer {
 public:
  virtual ~MpiPeer() = default;
  virtual std::string library() const = 0;  // "MPICH 4.0.2"
  /// Calls MPI_Init_thread with MPI_THREAD_MULTIPLE or MPI_THREAD_SINGLE.
  virtual Status start(bool any_thread) = 0;
  virtual bool can_run(const Call& call) const = 0;
  virtual Status run(const Call& call) = 0;
  /// Calls MPI_Finalize.
  virtual void finish() = 0;
};

/// The function that a module exports. It returns null if the module belongs to another build.
/// The peer lives as long as the process.
using MpiPeerEntry = MpiPeer*(const char* build_id);
inline constexpr char kMpiPeerEntry[] = "dabke_perf_mpi";

}  // namespace dabke::perf

// Loads the module of the MPI that has started this process, and makes a competitor of it.
#pragma once

#include <memory>
#include <string>

#include "benchmarks/perf/competitors/competitor.h"
#include "benchmarks/perf/competitors/mpi_peer.h"

namespace dabke::perf {

/// `mpi` is "mpich" or "openmpi". An error reports that dabke-perf was built without it.
Result<MpiPeer*> load_mpi_peer(const std::string& mpi);

/// The path of the module of `mpi`; empty if there is none.
std::string mpi_peer_path(const std::string& mpi);

/// The peer must have been started.
std::unique_ptr<Competitor> make_raw_mpi(MpiPeer& peer, const std::string& mpi);

}  // namespace dabke::perf

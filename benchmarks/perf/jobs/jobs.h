// The jobs that measure: dabke-perf starts itself as the ranks of each, one job after the other.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/perf/options.h"
#include "benchmarks/perf/report/results.h"

namespace dabke::perf {

/// What has to be installed for jobs to start; empty paths: it is not.
struct Launchers {
  std::string dabkerun;
  std::string mpich;  // and the module that calls it
  std::string openmpi;
};
Launchers find_launchers();

struct Job {
  std::string name;  // "dabkerun", "mpich", "openmpi"
  std::vector<std::string> launcher;
  std::vector<std::string> backends;
  std::vector<std::string> peers;
};

/// Pure. One job where MPI plays no part; else one for each MPI, of which only the first has the competitors
/// that need no MPI: but all have the backend that others are compared with. Errors name what is to be
/// installed.
Result<std::vector<Job>> plan_jobs(const Options& options, const Launchers& launchers);

/// Runs it to its end and returns what its rank 0 has measured. `arguments` are dabke-perf's own.
Result<std::vector<Row>> run_job(const Job& job, const std::vector<std::string>& arguments);

}  // namespace dabke::perf

// The jobs that measure. dabke-perf starts itself as the ranks of each job, one job after the other.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/perf/options.h"
#include "benchmarks/perf/report/results.h"

namespace dabke::perf {

/// The launchers that are installed. An empty path: not installed.
struct Launchers {
  std::string dabkerun;
  std::string mpich;  // only if there is also the module that calls it
  std::string openmpi;
};
Launchers find_launchers();

struct Job {
  std::string name;  // "dabkerun", "mpich", "openmpi"
  std::vector<std::string> launcher;
  std::vector<std::string> backends;
  std::vector<std::string> peers;
};

/// Pure. Plans one job if MPI plays no part, otherwise one job for each MPI. Only the first job has
/// the competitors that need no MPI, but all jobs have the backend that others are compared with.
/// Errors name what must be installed.
Result<std::vector<Job>> plan_jobs(const Options& options, const Launchers& launchers);

/// Runs the job to its end, and returns the results of its rank 0. `arguments` are dabke-perf's own.
Result<std::vector<Row>> run_job(const Job& job, const std::vector<std::string>& arguments);

}  // namespace dabke::perf

// The command that runs many elastic jobs, one seed after the other.
#pragma once

#include <cstdint>

namespace dabke::test {

/// Runs the jobs of the seeds from `first` on, until `events` have been simulated; at least one job. Prints
/// failures and a summary. Returns the exit status.
int run_elastic_jobs(unsigned first, double events);

}  // namespace dabke::test

// Rank 0's warnings about variables that no code reads.
#include <catch2/catch.hpp>
#include <string>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"

namespace dabke::test {

TEST_CASE("a misspelt variable is told once, by rank 0, wherever it was given") {
  const Finished job = LauncherRun({"-np", "2", "-x", "DABKE_LOG_LEVLE=debug", RANK_WORKER, "sums"},
                                   {.environment = {"DABKE_TIMELNE=t.json", "HOROVOD_CYCLE_TIEM=1"}})
                           .finish();
  CAPTURE(job.out, job.error);
  CHECK(job.exit_code == 0);
  for (const std::string line :
       {"DABKE_LOG_LEVLE is set, but nothing reads it; did you mean DABKE_LOG_LEVEL?",
        "DABKE_TIMELNE is set, but nothing reads it; did you mean DABKE_TIMELINE?",
        "HOROVOD_CYCLE_TIEM is set, but nothing reads it; did you mean HOROVOD_CYCLE_TIME?"}) {
    const auto at = job.error.find(line);
    REQUIRE(at != std::string::npos);
    CHECK(job.error.find(line, at + 1) == std::string::npos);
    CHECK(job.error.substr(job.error.rfind('\n', at) + 1).starts_with("[0]<stderr>:"));
  }
}

}  // namespace dabke::test

// A job that continues with other ranks, in the launcher's store.
#include <catch2/catch.hpp>
#include <string>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"

namespace dabke::test {

TEST_CASE(
    "a job goes on with fewer ranks, with other numbers and with ranks that come to it, again and again") {
  const Finished job = LauncherRun({"-np", "5", RANK_WORKER, "renumbers"}).finish();
  CAPTURE(job.out, job.error);
  CHECK(job.exit_code == 0);
  for (const char* const rank : {"[0]", "[1]", "[2]", "[3]", "[4]"})
    CHECK_THAT(job.out, Catch::Contains(std::string(rank) + "<stdout>:numbers are right"));
}

}  // namespace dabke::test

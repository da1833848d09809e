// Elastic jobs on devices: communicators are made again for the ranks of each epoch. On the doubles.
#include <signal.h>

#include <fstream>
#include <string>

#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/send_signal.h"
#include "tests/temporary_directory.h"

namespace dabke::test {

using Catch::Contains;

TEST_CASE("tensors on devices are summed over the ranks of each epoch, although rank 0 is lost") {
  const TemporaryDirectory directory;
  const std::string mark = "TEST_OF_NCCL=" + directory.path(), stop = directory.path() + "/stop";
  LauncherRun run({"-H", "localhost:3", "-np", "3", "--min-np", "2", "--blacklist-cooldown-range", "0.3",
                   "0.3", "-x", "DABKE_GPU_OPERATIONS=nccl", NCCL_ELASTIC_WORKER, stop},
                  {.environment = {mark}});
  REQUIRE(run.wait_for_output("epoch 1 of 3", 3));
  const pid_t first = worker_with(mark, 0);
  REQUIRE(first > 0);
  send_signal(first, SIGKILL);
  REQUIRE(run.wait_for_output("epoch 3 of 3", 3));
  std::ofstream{stop};
  const Finished end = run.finish();
  INFO(end.out + end.error);
  CHECK(end.exit_code == 0);
  CHECK_THAT(end.out, Contains("[0]<stdout>:epoch 2 of 2"));
  CHECK_THAT(end.out, Contains("[2]<stdout>:epoch 3 of 3"));
  for (const char* const rank : {"[0]", "[1]", "[2]"})
    CHECK_THAT(end.out, Contains(std::string(rank) + "<stdout>:done"));
}

}  // namespace dabke::test

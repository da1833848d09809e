// A rank that is killed while the job starts.
#include <catch2/catch.hpp>

#include <csignal>
#include <random>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/patience.h"

namespace dabke::test {

using Catch::Contains;

TEST_CASE("a rank that is killed in init is the first failure, at whatever moment and with whatever hosts") {
  std::mt19937 random(1);
  const int runs = test::kSanitized ? 6 : 24;
  for (int i = 0; i < runs; ++i) {
    const int victim = static_cast<int>(random() % 4);
    const int after_us = static_cast<int>(random() % (test::kSanitized ? 200'000 : 20'000));
    const int ranks_per_host = 1 << random() % 3;
    LauncherSetup setup;
    setup.environment = {"DABKE_TEST_VICTIM=" + std::to_string(victim),
                         "DABKE_TEST_AFTER_US=" + std::to_string(after_us),
                         "DABKE_TEST_RANKS_PER_HOST=" + std::to_string(ranks_per_host)};
    const Finished job = LauncherRun({"-np", "4", C_WORKER, "dies-in-init"}, setup).finish();
    CAPTURE(victim, after_us, ranks_per_host, job.out, job.error);
    CHECK(job.exit_code == 128 + SIGKILL);
    CHECK_THAT(job.error, Contains("dabkerun: first failure: rank " + std::to_string(victim) + " on host"));
    CHECK(job.took < test::kPatience);
  }
}

TEST_CASE("a rank whose init fails beside ranks that are past theirs is the first failure, and all say why") {
  for (int i = 0; i < (test::kSanitized ? 3 : 20); ++i) {
    LauncherSetup setup;
    setup.environment = {"DABKE_TIMELINE=/no/such/folder/timeline.json", "DABKE_TIMELINE_FORMAT=horovod",
                         "DABKE_TEST_VICTIM=-1", "DABKE_TEST_AFTER_US=0"};
    Finished job = LauncherRun({"-np", "3", C_WORKER, "dies-in-init"}, setup).finish();
    // If rank 0 stands still for long after it has reported the error, dabkerun ends it. Then the job runs
    // again.
    for (int again = 0;
         again < 3 && job.error.find("after that: rank 0 ended by dabkerun") != std::string::npos; ++again)
      job = LauncherRun({"-np", "3", C_WORKER, "dies-in-init"}, setup).finish();
    CAPTURE(i, job.out, job.error);
    CHECK(job.exit_code == 1);
    CHECK_THAT(job.error, Contains("dabkerun: first failure: rank 0 on host"));
    CHECK_THAT(job.error, Contains("cannot write the timeline to '/no/such/folder/timeline.json'"));
    CHECK_THAT(job.error, !Contains("closed its connection") && !Contains("ended (killed"));
  }
}

TEST_CASE("a process may exit while another of its threads is in init") {
  std::mt19937 random(2);
  const int runs = test::kSanitized ? 6 : 60;
  for (int i = 0; i < runs; ++i) {
    LauncherSetup setup;
    const auto after_us = random() % (test::kSanitized ? 100'000 : 10'000);
    setup.environment = {"DABKE_TEST_AFTER_US=" + std::to_string(after_us)};
    const Finished job = LauncherRun({"-np", "2", C_WORKER, "exits-in-init"}, setup).finish();
    CAPTURE(after_us, job.out, job.error);
    CHECK(job.exit_code == 0);
  }
}

}  // namespace dabke::test

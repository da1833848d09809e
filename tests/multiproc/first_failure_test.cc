// The rank that is blamed when a rank of a running job dies: real ranks, in the middle of collectives.
#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/patience.h"
#include "tests/send_signal.h"

namespace dabke::test {
namespace {

/// The number of kills: DABKE_TEST_KILLS, or a small default.
int kills() {
  const char* const more = std::getenv("DABKE_TEST_KILLS");
  return more == nullptr ? 6 : std::atoi(more);
}

/// The pid that rank `rank` has printed.
pid_t pid_of(const LauncherRun& launcher, int rank) {
  return launcher.number_after("[" + std::to_string(rank) + "]<stdout>:pid ");
}

std::string last_lines(const std::string& text) { return text.substr(text.rfind("dabkerun: first failure")); }

}  // namespace

TEST_CASE("the rank that died is the first failure, however soon the survivors end of its loss") {
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < kills(); ++i) {
    const int size = i % 2 == 0 ? 3 : 16;
    // The rank exits with 7 on SIGUSR1. After SIGABRT and SIGUSR1, only the reports of the survivors show
    // which rank was first.
    std::vector<int> signals = {SIGKILL, SIGTERM, SIGUSR1};
    // A sanitizer turns these signals into exits.
    if (!test::kSanitized) signals.insert(signals.end(), {SIGSEGV, SIGBUS, SIGABRT});
    const int signal = signals[random() % signals.size()];
    const int victim = static_cast<int>(random() % static_cast<unsigned>(size));
    // With this grace period, dabkerun kills no rank that is slow to end on SIGTERM.
    LauncherRun launcher({"-np", std::to_string(size), "--grace-period", "60", RANK_WORKER, "loop"});
    REQUIRE(launcher.wait_for_output("is ready", size));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));  // anywhere in a collective
    send_signal(pid_of(launcher, victim), signal);
    const Finished job = launcher.finish();
    CAPTURE(i, size, signal, victim, job.error);
    CHECK(job.exit_code == (signal == SIGUSR1 ? 7 : 128 + signal));
    const std::string verdict = last_lines(job.error);
    CHECK_THAT(verdict,
               Catch::StartsWith("dabkerun: first failure: rank " + std::to_string(victim) + " on "));
    CHECK_THAT(verdict, !Catch::Contains("killed by dabkerun"));
  }
}

TEST_CASE("a rank that leaves early with 0 is the first cause, in its survivors' errors and in the verdict") {
  const std::string kind =
      GENERATE(as<std::string>(), "leaves-by-return", "leaves-by-exit", "leaves-by-_exit");
  const int size = GENERATE(2, 4);
  const bool has_hosts = GENERATE(false, true);
  CAPTURE(kind, size, has_hosts);
  const std::string leaver = "rank " + std::to_string(size - 1);
  const std::string how =
      kind == "leaves-by-return" ? " left the job normally" : " ended with status 0 without dabke_shutdown";
  LauncherSetup setup;
  if (has_hosts) setup.environment = {"DABKE_TEST_RANKS_PER_HOST=1"};
  const Finished job =
      LauncherRun({"-np", std::to_string(size), "--grace-period", "60", RANK_WORKER, kind}, setup).finish();
  const std::string told = job.out.substr(std::min(job.out.size(), job.out.find("error ")));
  CAPTURE(job.out, job.error);
  CHECK(job.exit_code == 3);  // the exit code of a survivor, which failed because of the loss
  const std::string advice = "; do all ranks run the same number of steps? See join()";
  CHECK_THAT(told, Catch::Contains(leaver + " on ") && Catch::Contains(how) &&
                       Catch::Contains("allreduce 'grad'") && Catch::Contains(advice));
  CHECK_THAT(job.error, !Catch::Contains("dabkerun: first failure") &&
                            Catch::Contains("dabkerun: first cause: " + leaver + " on host "));
  const std::string verdict = job.error.substr(job.error.find("dabkerun: first cause: "));
  CHECK_THAT(verdict,
             Catch::Contains(kind == "leaves-by-return" ? ") left the job normally (status 0), while rank "
                                                        : ") ended with status 0 without dabke_shutdown; ") &&
                 Catch::Contains(advice) && Catch::Contains("\ndabkerun: after that: rank"));
}

TEST_CASE("the survivors' errors name the status and the signal of a rank that was killed") {
  const Finished job = LauncherRun({"-np", "2", "--grace-period", "60", RANK_WORKER, "killed"}).finish();
  CAPTURE(job.out, job.error);
  CHECK(job.exit_code == 128 + SIGKILL);
  CHECK_THAT(job.out, Catch::Contains("[0]<stdout>:error peer_lost: allreduce 'waited for': rank 1 on ") &&
                          Catch::Contains(" ended with status 137 (SIGKILL)"));
}

TEST_CASE("a rank that ends with 0 before init ends the init of the others at once") {
  const int size = GENERATE(2, 4);
  LauncherSetup setup{.environment = {"DABKE_START_TIMEOUT_SECONDS=600"}};
  const Finished job =
      LauncherRun({"-np", std::to_string(size), "--grace-period", "60", RANK_WORKER, "leaves-before-init"},
                  setup)
          .finish();
  CAPTURE(job.out, job.error);
  CHECK(job.exit_code == 3);
  CHECK_THAT(job.out, Catch::Contains("[0]<stdout>:error peer_lost: rank 1 on ") &&
                          Catch::Contains(" ended with status 0 before calling dabke_init"));
  CHECK_THAT(job.error, Catch::Contains("dabkerun: first cause: rank 1 on host ") &&
                            Catch::Contains(") ended with status 0 before calling dabke_init"));
}

}  // namespace dabke::test

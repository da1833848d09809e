// Who is blamed when a rank of a running job dies: real ranks, in the middle of collectives.
#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "launcher_run.h"
#include "tests/facts.h"
#include "tests/patience.h"

namespace dabke {
namespace {

/// DABKE_TEST_KILLS: how often, where more than the usual few are wanted.
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
    // The rank exits with 7 on SIGUSR1. After SIGABRT and that, only what the survivors say tells who was
    // first.
    std::vector<int> signals = {SIGKILL, SIGTERM, SIGUSR1};
    // A sanitizer makes exits of these.
    if (!test::kSanitized) signals.insert(signals.end(), {SIGSEGV, SIGBUS, SIGABRT});
    const int signal = signals[random() % signals.size()];
    const int victim = static_cast<int>(random() % static_cast<unsigned>(size));
    // Nobody is killed of those that take their time to end on SIGTERM.
    LauncherRun launcher({"-np", std::to_string(size), "--grace-period", "60", RANK_WORKER, "loop"});
    REQUIRE(launcher.wait_for_output("is ready", size));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));  // anywhere in a collective
    ::kill(pid_of(launcher, victim), signal);
    const Finished job = launcher.finish();
    CAPTURE(i, size, signal, victim, job.error);
    CHECK(job.exit_code == (signal == SIGUSR1 ? 7 : 128 + signal));
    const std::string verdict = last_lines(job.error);
    CHECK_THAT(verdict,
               Catch::StartsWith("dabkerun: first failure: rank " + std::to_string(victim) + " on "));
    CHECK_THAT(verdict, !Catch::Contains("killed by dabkerun"));
  }
}

}  // namespace dabke

// The errors of the survivors when a real process dies, stops, or disagrees.
#include <catch2/catch.hpp>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "tests/multiproc/rank_processes.h"
#include "tests/patience.h"
#include "tests/send_signal.h"

namespace dabke::test {

using Catch::Contains;
using namespace std::chrono_literals;

namespace {

constexpr auto kPromised = 2s;  // on an otherwise idle machine: see DABKE_TEST_KILLS

void survivors_name_rank(RankProcesses& ranks, int size, int victim) {
  for (int rank = 0; rank < size; ++rank) {
    if (rank == victim) continue;
    CAPTURE(rank);
    CHECK(ranks.exit_code(rank, test::kPatience) == 3);
    CHECK_THAT(ranks.output(rank), Contains("error peer_lost"));
    CHECK_THAT(ranks.output(rank), Contains("rank " + std::to_string(victim) + " on "));
  }
}

}  // namespace

TEST_CASE("processes that find each other in a directory compute the same sums") {
  const int size = GENERATE(1, 2, 4);
  RankProcesses ranks(size, "sums");
  for (int rank = 0; rank < size; ++rank) {
    CHECK(ranks.exit_code(rank, kLongest) == 0);
    CHECK_THAT(ranks.output(rank), Contains("sums are right"));
  }
}

TEST_CASE("survivors of a killed rank learn of it, by name, also when its forked child lives on") {
  const std::string kind = GENERATE("alone", "with-child");
  CAPTURE(kind);
  RankProcesses ranks(3, kind);
  REQUIRE(ranks.wait_for_output(2, "ready"));
  REQUIRE(ranks.wait_for_output(0, "waiting"));
  REQUIRE(ranks.wait_for_output(1, "waiting"));
  ranks.signal(2, SIGKILL);
  survivors_name_rank(ranks, 3, 2);
  if (kind == "with-child") {
    const std::string output = ranks.output(2);
    const pid_t child = std::stoi(output.substr(output.find("child ") + 6));
    CHECK_FALSE(is_gone(child));  // otherwise the test would have shown nothing
    send_signal(child, SIGKILL);
  }
}

TEST_CASE("survivors of a rank killed in the middle of a large allreduce learn of it") {
  std::mt19937 random(std::random_device{}());
  for (const int victim : {2, 0, 1}) {
    RankProcesses ranks(3, "large");
    for (int rank = 0; rank < 3; ++rank) REQUIRE(ranks.wait_for_output(rank, "ready"));
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 200));  // anywhere in one allreduce
    ranks.signal(victim, SIGKILL);
    survivors_name_rank(ranks, 3, victim);
  }
}

TEST_CASE("processes sum registered memory, from before the first job, in two jobs") {
  RankProcesses ranks(3, "registered");
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(ranks.exit_code(rank, kLongest) == 0);
    CHECK_THAT(ranks.output(rank), Contains("sums are right"));
  }
}

TEST_CASE("survivors of a rank killed in the middle of 256 MB learn of it, and nothing is left") {
  const std::string kind = GENERATE("huge", "huge-registered");
  const char* const more = std::getenv("DABKE_TEST_KILLS");  // the number of kills, at random moments
  const int times = more == nullptr ? 2 : std::atoi(more);
  std::chrono::duration<double> slowest{0};
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < times; ++i) {
    CAPTURE(kind, i);
    RankProcesses ranks(3, kind);
    for (int rank = 0; rank < 3; ++rank) REQUIRE(ranks.wait_for_output(rank, "ready"));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 200'000));
    const int victim = static_cast<int>(random() % 3);
    ranks.signal(victim, SIGKILL);
    const auto killed = std::chrono::steady_clock::now();
    for (int rank = 0; rank < 3; ++rank) {
      if (rank != victim) CHECK(ranks.wait_for_output(rank, "error peer_lost"));
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - killed;
    CHECK(took <= (more == nullptr ? test::kPatience : kPromised));
    slowest = std::max(slowest, took);
    survivors_name_rank(ranks, 3, victim);
  }
  if (more != nullptr)
    WARN(kind << ": all survivors knew " << slowest.count() << " s after the kill at the latest");
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
    CHECK_THAT(file.path().filename().string(), !Contains("dabke"));
}

TEST_CASE("a stopped rank is slow, not dead") {
  RankProcesses ranks(3, "steps");
  for (int rank = 0; rank < 3; ++rank) REQUIRE(ranks.wait_for_output(rank, "ready"));
  ranks.signal(1, SIGSTOP);
  std::this_thread::sleep_for(3s);
  ranks.signal(1, SIGCONT);
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(ranks.exit_code(rank, kLongest) == 0);
    CHECK_THAT(ranks.output(rank), Contains("done"));
  }
}

TEST_CASE("a check ends a wait for a stopped rank after a second, and the wait can be repeated") {
  RankProcesses ranks(2, "stopped-wait");
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(ranks.exit_code(rank, kLongest) == 0);
    CHECK_THAT(ranks.output(rank), Contains("waited again"));
  }
  CHECK_THAT(ranks.output(0),
             Contains("stopped interrupted: the wait for allreduce 'x' was stopped by its check"));
}

TEST_CASE("a check ends the job where its thread is inside a collective with a stopped rank") {
  RankProcesses ranks(2, "stopped-wait-inside");
  CHECK(ranks.exit_code(0, kLongest) == 3);
  CHECK_THAT(ranks.output(0), Contains("stopped aborted: allreduce 'x': shm allreduce of 1 tensor (order"));
  CHECK(ranks.exit_code(1, kLongest) == 3);
  for (int rank = 0; rank < 2; ++rank) {
    CHECK_THAT(ranks.output(rank), Contains("error aborted: "));
    CHECK_THAT(ranks.output(rank), Contains("the wait for allreduce 'x' was stopped by its check"));
  }
  CHECK_THAT(ranks.output(1), Contains("failed on rank 0"));
}

TEST_CASE("a mismatch reaches every process, and the next collective works") {
  RankProcesses ranks(3, "mismatch");
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(ranks.exit_code(rank, kLongest) == 0);
    CHECK_THAT(ranks.output(rank), Contains("Mismatched shape for 'odd'"));
    CHECK_THAT(ranks.output(rank), Contains("ranks 0, 2 submitted"));
    CHECK_THAT(ranks.output(rank), Contains("rank 1 on"));
    CHECK_THAT(ranks.output(rank), Contains("next is right"));
  }
}

}  // namespace dabke::test

#include "launcher/verdict/outcome.h"

#include <signal.h>

#include <cerrno>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

RankEnd exited(int rank, int code, std::int64_t time_ms, int our_signal = 0) {
  return {.rank = rank,
          .host = "h",
          .pid = 100 + rank,
          .kind = RankEnd::Kind::exited,
          .value = code,
          .time_ns = time_ms * 1'000'000,
          .our_signal = our_signal};
}

RankEnd signalled(int rank, int signal, std::int64_t time_ms, int our_signal = 0) {
  RankEnd end = exited(rank, signal, time_ms, our_signal);
  end.kind = RankEnd::Kind::signalled;
  return end;
}

}  // namespace

TEST_CASE("a job whose ranks all end with 0 succeeds in silence") {
  const Outcome outcome = conclude({exited(0, 0, 5), exited(1, 0, 1)}, std::nullopt);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.lines.empty());
}

TEST_CASE("the first failure by time gives the exit code, and the others are its consequences") {
  const Outcome outcome =
      conclude({exited(0, 1, 900), signalled(2, SIGKILL, 100), exited(1, 1, 800), exited(4, 0, 50),
                signalled(3, SIGTERM, 950, SIGTERM), signalled(5, SIGKILL, 5000, SIGKILL)},
               std::nullopt);
  CHECK(outcome.exit_code == 137);
  CHECK(outcome.lines ==
        std::vector<std::string>{"first failure: rank 2 on host h (pid 102) was killed by SIGKILL (signal "
                                 "9): killed from outside: by kill -9, a "
                                 "batch system, or the kernel when memory ran out (see dmesg)",
                                 "after that: rank 3 ended by dabkerun; ranks 0-1 exited with status code 1; "
                                 "rank 5 killed by dabkerun after SIGTERM did not end it"});
}

TEST_CASE("what Slurm kills after srun was killed is a consequence, whenever it was seen") {
  RankEnd lost = exited(0, 0, 105);
  lost.kind = RankEnd::Kind::agent_lost;
  lost.is_of_srun = true;
  const Outcome outcome = conclude({lost, signalled(1, SIGKILL, 100)}, std::nullopt);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.first_failed_rank == 0);
}

TEST_CASE(
    "a crash goes before an error exit that was seen earlier, unless dabkerun had told the rank to end") {
  const std::vector<RankEnd> together{exited(0, 1, 100), signalled(1, SIGKILL, 102)};
  CHECK(first_failure(together)->rank == 1);
  const std::vector<RankEnd> seen_late{exited(0, 1, 100), signalled(1, SIGSEGV, 900)};
  CHECK(first_failure(seen_late)->rank == 1);
  const std::vector<RankEnd> in_a_shell{exited(0, 1, 100), exited(1, 128 + SIGSEGV, 102)};
  CHECK(first_failure(in_a_shell)->rank == 1);
  const std::vector<RankEnd> ended_by_us{exited(0, 1, 100), signalled(1, SIGKILL, 102, SIGKILL)};
  CHECK(first_failure(ended_by_us)->rank == 0);
  const std::vector<RankEnd> crashed_in_its_handler{exited(0, 1, 100), signalled(1, SIGSEGV, 102, SIGTERM)};
  CHECK(first_failure(crashed_in_its_handler)->rank == 0);
}

TEST_CASE("ranks that abort because of a peer's end do not go before it") {
  const std::vector<RankEnd> ends{signalled(1, SIGABRT, 102), exited(0, 1, 100), signalled(2, SIGABRT, 103)};
  CHECK(first_failure(ends)->rank == 0);
}

TEST_CASE("of several errors the rank that others have lost comes first, but not before a crash") {
  std::vector<RankEnd> ends{exited(0, 3, 100), exited(1, 7, 110), signalled(2, SIGABRT, 105)};
  ends[1].is_blamed = true;
  CHECK(first_failure(ends)->rank == 1);
  ends.push_back(signalled(3, SIGKILL, 900));
  CHECK(first_failure(ends)->rank == 3);
}

TEST_CASE("a signal is dabkerun's only where dabkerun has sent it") {
  const Outcome outcome = conclude({exited(0, 3, 100), signalled(1, SIGSEGV, 200, SIGTERM),
                                    signalled(2, SIGKILL, 300, SIGTERM), signalled(3, SIGTERM, 400, SIGKILL)},
                                   std::nullopt);
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.lines.back() ==
        "after that: rank 3 ended by dabkerun; rank 2 was killed by SIGKILL (signal 9); rank 1 was killed by "
        "SIGSEGV (signal 11)");
}

TEST_CASE("an interrupted job says so, names who had to be killed, and returns 128 and the signal") {
  const Outcome outcome =
      conclude({signalled(0, SIGINT, 1, SIGINT), signalled(1, SIGKILL, 2, SIGKILL)}, SIGINT);
  CHECK(outcome.exit_code == 130);
  CHECK(outcome.lines == std::vector<std::string>{"the job was ended by SIGINT",
                                                  "killed because they did not end in time: rank 1"});
  CHECK(conclude({exited(0, 0, 1, SIGTERM)}, SIGTERM).exit_code == 0);
}

TEST_CASE("exit codes are those of a shell") {
  CHECK(exit_code_of(exited(0, 3, 0)) == 3);
  CHECK(exit_code_of(signalled(0, SIGSEGV, 0)) == 139);
  RankEnd end = exited(0, ENOENT, 0);
  end.kind = RankEnd::Kind::not_started;
  CHECK(exit_code_of(end) == 127);
  end.value = EACCES;
  CHECK(exit_code_of(end) == 126);
  CHECK(describe(end) == "could not be started: Permission denied");
}

TEST_CASE("a shared library that is not found is named by the last line, with LD_LIBRARY_PATH") {
  RankEnd end = exited(0, 127, 0);
  const std::string meaning =
      "the shared library libx.so.3 was not found: install it there, or give its directory with -x "
      "LD_LIBRARY_PATH=DIRECTORY";
  end.last_lines = {
      "./train: error while loading shared libraries: libx.so.3: cannot open shared object file: No "
      "such file or directory"};
  CHECK(meaning_of(end) == meaning);
  end.value = 1;
  end.last_lines = {"Traceback (most recent call last):",
                    "ImportError: libx.so.3: cannot open shared object file: No such file or directory"};
  CHECK(meaning_of(end) == meaning);
  end.last_lines = {"Error loading shared library libx.so.3: No such file or directory (needed by ./train)"};
  CHECK(meaning_of(end) == meaning);
  end.last_lines.emplace_back("ValueError: out of range");  // the program went on without the library
  CHECK(meaning_of(end) == "see its last lines, marked [0]");
}

TEST_CASE("a program that wrote nothing has no last lines to look for") {
  CHECK(meaning_of(exited(3, 1, 0)) == "the program wrote nothing");
}

TEST_CASE("a program that is there and is not found lacks its loader") {
  RankEnd end = exited(0, ENOENT, 0);
  end.kind = RankEnd::Kind::not_started;
  CHECK_THAT(meaning_of(end), Catch::Contains("the loader that it was linked for is missing"));
}

TEST_CASE("signals have names") {
  CHECK(signal_name(SIGKILL) == "SIGKILL");
  CHECK(signal_name(SIGSEGV) == "SIGSEGV");
  CHECK(signal_name(SIGRTMIN + 3) == "signal " + std::to_string(SIGRTMIN + 3));
}

TEST_CASE("lists of ranks are short") {
  CHECK(rank_list({}).empty());
  CHECK(rank_list({3}) == "3");
  CHECK(rank_list({7, 0, 2, 1, 5, 6, 9}) == "0-2,5-7,9");
}

TEST_CASE(
    "a rank that left early with 0 is the first cause, and the code is that of the rank that failed of it") {
  RankEnd left = exited(1, 0, 90);
  left.is_blamed = true;
  left.early_leave = "left the job normally (status 0), while rank 0 waits for allreduce 'x'";
  const Outcome outcome = conclude({exited(0, 3, 100), left, exited(2, 1, 95)}, std::nullopt);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.first_failed_rank == 2);
  CHECK(outcome.lines ==
        std::vector<std::string>{
            "first cause: rank 1 on host h (pid 101) left the job normally (status 0), while rank 0 waits "
            "for allreduce 'x'",
            "after that: rank 2 exited with status code 1; rank 0 exited with status code 3"});
  CHECK(conclude({left, exited(0, 0, 100)}, std::nullopt).lines.empty());  // no rank failed because of it
  CHECK_THAT(conclude({left, signalled(0, SIGSEGV, 100)}, std::nullopt).lines.front(),
             Catch::StartsWith("first failure: rank 0 on host h"));
  RankEnd other = exited(2, 1, 95);
  other.is_blamed = true;
  CHECK_THAT(conclude({exited(0, 3, 100), left, other}, std::nullopt).lines.front(),
             Catch::StartsWith("first failure: rank 2 on host h"));
}

}  // namespace dabke::test

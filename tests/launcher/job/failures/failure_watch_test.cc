#include "launcher/job/failures/failure_watch.h"

#include <signal.h>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

using namespace std::chrono_literals;

/// A job of so many running ranks, and the watch over it. Moments count from the first end of a rank.
struct WatchedJob {
  explicit WatchedJob(int size) {
    for (int rank = 0; rank < size; ++rank) {
      ranks.add({.rank = rank, .size = size, .host = "ada"}, nullptr);
      ranks.set_started(rank, 100 + rank, 200 + rank);
    }
  }

  void end(int rank, int exit_code, Duration at = {}) {
    ranks.set_ended(rank);
    watch.take_end(
        {.rank = rank, .host = "ada", .pid = 100 + rank, .value = exit_code, .time_ns = at.count()},
        begin + at);
  }
  void log(int speaker, int blamed, const std::string& what = "it closed its connection") {
    watch.take_error_line(speaker, "[12:00:00.000 dabke rank " + std::to_string(speaker) +
                                       " error] allreduce 'x' failed: rank " + std::to_string(blamed) +
                                       " on ada: " + what + "\n");
  }
  void set_state(int rank, bool is_ending, const std::string& state = "runs") {
    ranks.set_state({rank, is_ending, state});
  }
  /// The rank that is announced at that moment; -1: none.
  int settle(Duration at) {
    watch.begin_look(begin + at);
    const auto first = watch.settle(ranks, begin + at);
    return first ? first->rank : -1;
  }

  const TimePoint begin{1h};
  JobRanks ranks;
  FailureWatch watch;
};

}  // namespace

TEST_CASE("a rank that has failed is looked at 10 ms later, when those that failed with it are known") {
  WatchedJob job(3);
  CHECK_FALSE(job.watch.look_at());
  job.end(2, 0);
  CHECK_FALSE(job.watch.look_at());  // an end with 0 is not a failure
  job.end(1, 3, 5ms);
  CHECK(job.watch.look_at() == job.begin + 15ms);
  job.end(0, 3, 8ms);
  CHECK(job.watch.look_at() == job.begin + 15ms);  // still 10 ms after the first failure
}

TEST_CASE("the first failure is announced once, with the ranks that failed at the same moment sorted") {
  WatchedJob job(3);
  job.end(1, 3);
  job.ranks.set_ended(0);
  job.watch.take_end({.rank = 0, .kind = RankEnd::Kind::signalled, .value = SIGSEGV, .time_ns = 7},
                     job.begin);
  CHECK(job.settle(10ms) == 0);  // a crash takes precedence over an error exit, whichever was seen first
  CHECK(job.watch.is_closed());
  CHECK(job.settle(20ms) == -1);
  job.end(2, 1, 30ms);
  CHECK_FALSE(job.watch.look_at());
}

TEST_CASE("nothing is announced while a rank is in the middle of ending, for half a second") {
  WatchedJob job(3);
  job.end(0, 1);
  job.set_state(1, true);
  CHECK(job.settle(10ms) == -1);
  CHECK(job.watch.look_at() == job.begin + 20ms);
  CHECK_FALSE(job.watch.is_closed());
  CHECK(job.settle(499ms) == -1);
  CHECK(job.settle(500ms) == 0);
  CHECK_FALSE(job.watch.look_at());
}

TEST_CASE("a rank in the middle of ending is waited for no longer than until it has ended") {
  WatchedJob job(3);
  job.end(0, 1);
  job.set_state(1, true);
  CHECK(job.settle(10ms) == -1);
  job.end(1, 1, 12ms);
  CHECK(job.settle(20ms) == 0);
}

TEST_CASE("a rank that is killed after srun is announced when its agent is lost, or after half a second") {
  WatchedJob job(3);
  job.ranks.set_ended(0);
  job.watch.take_end({.rank = 0, .kind = RankEnd::Kind::signalled, .value = SIGKILL}, job.begin);
  const auto settle = [&](Duration at) {
    job.watch.begin_look(job.begin + at);
    return job.watch.settle(job.ranks, job.begin + at, true);
  };
  CHECK_FALSE(settle(10ms));
  CHECK(job.watch.look_at() == job.begin + 20ms);
  SECTION("it is lost") {
    job.watch.blame_srun([](Rank) { return true; });
    const auto first = settle(20ms);
    REQUIRE(first);
    CHECK(first->kind == RankEnd::Kind::agent_lost);
  }
  SECTION("it is not") {
    CHECK_FALSE(settle(499ms));
    const auto first = settle(500ms);
    REQUIRE(first);
    CHECK(first->kind == RankEnd::Kind::signalled);
  }
}

TEST_CASE("a rank that others blame has three seconds to end by itself, and is the first failure then") {
  WatchedJob job(3);
  job.log(0, 2);
  job.end(0, 1);
  CHECK(job.settle(10ms) == -1);
  CHECK(job.watch.look_at() == job.begin + 20ms);
  CHECK(job.settle(600ms) == -1);
  CHECK(job.watch.look_at() == job.begin + 650ms);  // from now on, it is checked less often
  SECTION("it ends") {
    job.end(2, 1, 700ms);
    CHECK(job.settle(710ms) == 2);
  }
  SECTION("it does not, and the one that has ended is") {
    CHECK(job.settle(2999ms) == -1);
    CHECK(job.settle(3s) == 0);
  }
}

TEST_CASE("a blamed rank that is stopped does not end by itself, so it is not waited for") {
  WatchedJob job(3);
  job.log(0, 2);
  job.end(0, 1);
  job.set_state(2, false, "is stopped (SIGSTOP)");
  CHECK(job.settle(600ms) == 0);
}

TEST_CASE("a blamed rank that was never started is not waited for") {
  WatchedJob job(2);
  job.ranks.add({.rank = 2, .size = 3}, nullptr);
  job.log(0, 2);
  job.end(0, 1);
  CHECK(job.settle(10ms) == 0);
}

TEST_CASE("a rank is not its own cause, and the first that a rank blames counts") {
  WatchedJob job(4);
  job.log(0, 0);
  job.end(0, 1);
  CHECK_FALSE(job.watch.ends().front().is_blamed);
  job.log(1, 2);
  job.log(1, 3);
  job.end(2, 1);
  job.end(3, 1);
  CHECK(job.watch.ends()[1].is_blamed);
  CHECK(job.watch.ends()[2].is_blamed);
  CHECK(job.settle(10ms) == 2);
}

TEST_CASE("a rank that left early is the cause of those that blame it, and what they are blamed for is not") {
  WatchedJob job(3);
  job.end(1, 0);
  job.log(0, 1, "it left the job normally, while rank 0 waits for allreduce 'x'");
  job.log(2, 0);
  job.end(0, 1, 1ms);
  const auto ends = job.watch.ends();
  REQUIRE(ends.size() == 2);
  CHECK_THAT(ends[0].early_leave, Catch::StartsWith("left the job normally (status 0)"));
  CHECK(ends[0].is_blamed);
  CHECK_FALSE(ends[1].is_blamed);
}

TEST_CASE(
    "of the look's limit, half a second since the failure counts, or 10 ms from now where that is over") {
  WatchedJob job(2);
  job.end(0, 1);
  CHECK(job.watch.begin_look(job.begin + 10ms) == job.begin + 500ms);
  CHECK_FALSE(job.watch.look_at());
  CHECK(job.watch.begin_look(job.begin + 2s) == job.begin + 2010ms);
}

TEST_CASE(
    "no failure is announced once the job ends for another reason, or where nobody is left to be ended") {
  WatchedJob interrupted(2);
  interrupted.end(0, 1);
  interrupted.watch.close();
  CHECK(interrupted.settle(10ms) == -1);

  WatchedJob closed(2);
  closed.watch.close();
  closed.end(0, 1);
  CHECK_FALSE(closed.watch.look_at());

  WatchedJob over(2);
  over.end(0, 1);
  over.end(1, 1);
  CHECK(over.settle(10ms) == -1);
  CHECK(over.watch.is_closed());
}

TEST_CASE("what Slurm kills with its srun counts as lost with the agent, but what ended by itself does not") {
  WatchedJob job(4);
  const auto kill = [&](int rank, int signal, int our_signal) {
    job.ranks.set_ended(rank);
    job.watch.take_end(
        {.rank = rank, .kind = RankEnd::Kind::signalled, .value = signal, .our_signal = our_signal},
        job.begin);
  };
  kill(0, SIGKILL, 0);
  kill(1, SIGSEGV, 0);
  kill(2, SIGKILL, SIGKILL);
  kill(3, SIGKILL, 0);
  job.watch.blame_srun([](Rank rank) { return rank != 3; });
  std::vector<bool> are_lost;
  for (const RankEnd& end : job.watch.ends())
    are_lost.push_back(end.is_of_srun && end.kind == RankEnd::Kind::agent_lost);
  CHECK(are_lost == std::vector<bool>{true, false, false, false});
}

}  // namespace dabke::test

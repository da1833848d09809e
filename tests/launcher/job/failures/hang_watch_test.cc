#include "launcher/job/failures/hang_watch.h"

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

diagnosis::Dump dump_of(Rank rank, std::uint64_t incident, const std::string& waits_for = "") {
  diagnosis::Dump dump;
  dump.rank = rank;
  dump.incident = incident;
  dump.host = "ada";
  dump.pid = 100 + rank;
  dump.process_sets = {{0, {0, 1, 2}}};
  dump.events.push_back({"submitted", 30, "a", "allreduce", 0, ++dump.submitted, 1, 4});
  if (!waits_for.empty())
    dump.pending.push_back({waits_for, "allreduce", 0, "allreduce (sum) of float32 [1]", 60, "announced"});
  return dump;
}

struct HangingJob {
  HangingJob() : watch([this](const HangWatch::Verdict& verdict) { verdicts.push_back(verdict); }) {
    for (int rank = 0; rank < 3; ++rank) {
      ranks.add({.rank = rank, .size = 3, .host = "ada"}, nullptr);
      ranks.set_started(rank, 100 + rank, 0);
    }
  }
  void take(diagnosis::Dump dump, Duration at = {}) {
    std::vector<diagnosis::Dump> dumps;
    dumps.push_back(std::move(dump));
    watch.take(std::move(dumps), ranks, begin + at);
  }

  const TimePoint begin{1h};
  JobRanks ranks;
  std::vector<HangWatch::Verdict> verdicts;
  HangWatch watch;
};

}  // namespace

TEST_CASE("a hang is judged when every rank has sent a dump") {
  HangingJob job;
  job.take(dump_of(0, 7, "x"));
  job.take(dump_of(1, 7, "x"));
  CHECK(job.watch.judge_at() == job.begin + 2s);
  CHECK(job.verdicts.empty());
  job.take(dump_of(2, 7), 1s);
  CHECK_FALSE(job.watch.judge_at());
  REQUIRE(job.verdicts.size() == 1);
  CHECK_THAT(job.verdicts[0].front(), Contains("allreduce 'x' waits for rank 2"));
}

TEST_CASE("of a rank that sends no dump in time, the state of its process is what there is") {
  HangingJob job;
  job.take(dump_of(0, 7, "x"));
  job.take(dump_of(1, 7, "x"));
  job.ranks.set_state({2, false, "is stopped (SIGSTOP)"});
  job.watch.judge(job.ranks);
  CHECK_FALSE(job.watch.judge_at());
  REQUIRE(job.verdicts.size() == 1);
  CHECK_THAT(job.verdicts[0][1], Contains("is stopped (SIGSTOP)"));
}

TEST_CASE("one verdict is not told twice, and a dump that comes late may make another one") {
  HangingJob job;
  job.take(dump_of(0, 7, "x"));
  job.watch.judge(job.ranks);
  REQUIRE(job.verdicts.size() == 1);
  job.take(dump_of(1, 7, "x"), 5s);
  CHECK(job.watch.judge_at() == job.begin + 7s);
  job.watch.judge(job.ranks);
  CHECK(job.verdicts.size() == 2);
  job.watch.judge(job.ranks);
  CHECK(job.verdicts.size() == 2);
}

TEST_CASE("a hang that only lasts longer is not reported again") {
  HangingJob job;
  const auto take_all = [&](double age, const std::string& rank_2_waits_for) {
    for (int rank = 0; rank < 3; ++rank) {
      diagnosis::Dump dump = dump_of(rank, 7, rank < 2 ? "x" : rank_2_waits_for);
      for (diagnosis::Dump::Pending& pending : dump.pending) pending.age = age + rank;
      for (diagnosis::Dump::Event& event : dump.events) event.age = age + 1;
      job.take(std::move(dump));
    }
  };
  take_all(60, "");
  REQUIRE(job.verdicts.size() == 1);
  CHECK_THAT(job.verdicts[0].front(), Contains("waiting for 61.0 s"));
  take_all(120, "");
  CHECK(job.verdicts.size() == 1);
  take_all(180, "y");
  CHECK(job.verdicts.size() == 2);
  take_all(240, "y");
  CHECK(job.verdicts.size() == 2);
}

TEST_CASE("a late dump of a job that has begun to end makes no verdict of its own") {
  HangingJob job;
  job.take(dump_of(0, 7, "x"));
  job.watch.judge(job.ranks);
  job.ranks.set_ended(1);
  job.take(dump_of(2, 7), 5s);
  CHECK_FALSE(job.watch.judge_at());
}

TEST_CASE("another incident, or a second dump of a rank, begins anew and judges what there was") {
  HangingJob job;
  job.take(dump_of(0, 7, "x"));
  job.take(dump_of(0, 7, "y"), 1s);
  REQUIRE(job.verdicts.size() == 1);
  CHECK_THAT(job.verdicts[0].front(), Contains("'x'"));
  CHECK(job.watch.judge_at() == job.begin + 3s);
  job.take(dump_of(1, 8, "z"), 2s);
  REQUIRE(job.verdicts.size() == 2);
  CHECK_THAT(job.verdicts[1].front(), Contains("'y'"));
}

TEST_CASE("what a rank did when the job failed counts, not what it does once it is ended") {
  HangingJob job;
  job.ranks.set_state({2, false, "is stopped (SIGSTOP)"});
  job.watch.note_failure(job.ranks);
  job.ranks.set_state({2, false, "runs"});
  job.take(dump_of(0, 7, "x"));
  job.take(dump_of(1, 7, "x"));
  job.take(dump_of(2, 7, "x"));
  REQUIRE(job.verdicts.size() == 1);
  CHECK_THAT(job.verdicts[0][1], Contains("is stopped (SIGSTOP)"));
}

TEST_CASE("what a stall was explained by is not repeated by the dumps of its failure") {
  HangingJob job;
  job.take(dump_of(0, 7, "x"));
  job.watch.judge(job.ranks);
  REQUIRE(job.verdicts.size() == 1);
  job.take(dump_of(1, 0, "y"), 9s);
  job.watch.judge(job.ranks);
  CHECK(job.verdicts.size() == 1);
}

}  // namespace dabke::test

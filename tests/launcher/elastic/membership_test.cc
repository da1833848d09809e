#include "launcher/elastic/membership.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/launcher/elastic/played_job.h"

namespace dabke::test {
namespace {

using namespace std::chrono_literals;
using namespace launcher;
using Catch::Matchers::Contains;

MembershipLimits four_of(int min_np, int max_np = 4) {
  return {.first_np = 4, .min_np = min_np, .max_np = max_np, .spares = 0, .reset_limit = {}};
}

/// A job of four in its first epoch.
Played running(MembershipLimits limits, std::vector<Host> hosts = {{"a", 4}}) {
  Played job(limits, std::move(hosts));
  for (WorkerId worker = 0; worker < 4; ++worker) job.comes(worker, 0);
  REQUIRE(job.plan.epoch == 1);
  return job;
}

}  // namespace

TEST_CASE("the first epoch has all that were started, by host and slot") {
  Played job(four_of(2), {{"a", 2}, {"b", 2}});
  REQUIRE(job.starts.size() == 4);
  CHECK(job.starts[3].slot == Slot{"b", 1});
  for (const WorkerId worker : {3, 1, 0}) job.comes(worker, 0);
  CHECK(job.plan.epoch == 0);
  job.comes(2, 0);
  CHECK(job.members() == std::vector{0, 1, 2, 3});
  CHECK(job.plan.members[2].local_rank == 0);
  CHECK(job.plan.members[2].former_rank == -1);
  CHECK(job.answered_visits == std::vector<std::uint64_t>{1, 1, 1, 1});
}

TEST_CASE("survivors go on as soon as all of them have come, in their old order, rank 0 or not") {
  const WorkerId lost = GENERATE(0, 1, 3);
  Played job = running(four_of(2));
  job.ends(lost);
  std::vector<WorkerId> survivors = {3, 2, 1, 0};
  std::erase(survivors, lost);
  for (const WorkerId worker : survivors) {
    CHECK(job.plan.epoch == 1);
    job.comes(worker, 1, 5);
  }
  CHECK(job.plan.epoch == 2);
  std::ranges::reverse(survivors);
  CHECK(job.members() == survivors);
  REQUIRE(job.plan.lost.size() == 1);
  CHECK(job.plan.lost[0] == bootstrap::LostMember{lost, "a", "killed by SIGKILL"});
  for (const auto& member : job.plan.members) CHECK(member.local_rank == member.worker);  // as before
}

TEST_CASE("the summary names the slots that start, wait, leave or are left out") {
  Played job = running(four_of(2));
  CHECK(job.summary() == "4 ranks");
  job.ends(1);
  CHECK(job.summary() == "3 ranks; left out: a:1 for 10 s");
  for (const WorkerId worker : {0, 2}) job.comes(worker, 1, 5);
  CHECK(job.summary() == "3 ranks, 2 between two epochs; left out: a:1 for 10 s");
  job.comes(3, 1, 5);
  job.passes(2500ms);
  CHECK(job.summary() == "3 ranks; left out: a:1 for 8 s");
  job.passes(7500ms);
  CHECK(job.summary() == "3 ranks; starting: a:1");
  job.comes(4, 0);
  CHECK(job.summary() == "3 ranks; waiting: a:1");
  job.hosts({{"a", 3}});
  CHECK(job.summary() == "3 ranks; waiting: a:1; leaving: a:3");
}

TEST_CASE("the summary counts slots that are too many to name") {
  const Played job({.first_np = 12, .min_np = 1, .max_np = 12}, {{"a", 12}});
  CHECK(job.summary() == "0 ranks; starting: a:0, a:1, a:2, a:3, a:4, a:5, a:6, a:7 and 4 more");
}

TEST_CASE("survivors may come before the loss is reported") {
  Played job = running(four_of(2));
  job.comes(0, 1);
  job.comes(1, 1);
  job.comes(3, 1);
  CHECK(job.plan.epoch == 1);
  job.ends(2);
  CHECK(job.members() == std::vector{0, 1, 3});
}

TEST_CASE("a lost member's slot is filled after a cooldown, and the newcomer joins at a commit") {
  Played job = running(four_of(2));
  job.ends(1);
  for (const WorkerId worker : {0, 2, 3}) job.comes(worker, 1, 5);
  REQUIRE(job.plan.epoch == 2);
  CHECK(job.starts.size() == 4);
  CHECK(job.deadline() == job.now + 10s);
  job.passes(10s);
  REQUIRE(job.starts.size() == 5);
  CHECK(job.starts[4].slot == Slot{"a", 1});
  CHECK(job.announced.empty());
  job.comes(4, 0);
  REQUIRE(job.announced.size() == 1);
  CHECK(job.announced[0].change == 1);
  CHECK(job.plan.epoch == 2);
  CHECK(job.plan.change == 0);
  job.all_come(2, 9);
  CHECK(job.plan.epoch == 3);
  CHECK(job.plan.change == 1);  // announced, and no news in this epoch
  CHECK(job.members() == std::vector{0, 2, 3, 4});
  CHECK(job.plan.lost.empty());
  CHECK(job.plan.newest_commit() == 9);
  CHECK(job.plan.holders() == std::vector{0, 1, 2});
  CHECK(job.plan.members[3].former_rank == -1);
  CHECK(job.plan.members[3].local_rank == 1);
}

TEST_CASE("a slot's cooldown doubles with each failure, up to its limit") {
  MembershipLimits limits = four_of(1);
  limits.most_cooldown = 35s;
  Played job = running(limits);
  std::uint64_t commit = 1;
  WorkerId victim = 3;
  for (const Duration cooldown : {Duration(10s), Duration(20s), Duration(35s), Duration(35s)}) {
    job.ends(victim);
    job.all_come(job.plan.epoch, ++commit);
    const std::size_t before = job.starts.size();
    job.passes(cooldown - 1ms);
    CHECK(job.starts.size() == before);
    job.passes(1ms);
    REQUIRE(job.starts.size() == before + 1);
    victim = job.starts.back().worker;
    job.comes(victim, 0);
    job.all_come(job.plan.epoch, ++commit);
    CHECK(job.members().back() == victim);
  }
}

TEST_CASE("too few survivors wait for newcomers, for a limited time") {
  Played job = running(four_of(4));
  job.ends(2);
  for (const WorkerId worker : {0, 1, 3}) job.comes(worker, 1, 1);
  CHECK(job.plan.epoch == 1);
  SECTION("one comes") {
    job.passes(10s);
    job.comes(4, 0);
    CHECK(job.members() == std::vector{0, 1, 3, 4});
  }
  SECTION("none comes") {
    job.passes(10s);
    job.ends(4, "exited with status code 1");
    job.passes(600s);
    REQUIRE(job.end);
    CHECK(job.end->is_failure);
    CHECK_THAT(job.end->why, Contains("3 of at least 4 ranks are there") && Contains("--min-np") &&
                                 Contains("exited with status code 1"));
  }
}

TEST_CASE("hosts that are not known yet are waited for, for a limited time, and then their processes anew") {
  Played job(four_of(4), {});
  job.passes(599s);
  SECTION("they come") {
    job.hosts({{"a", 4}});
    REQUIRE(job.starts.size() == 4);
    job.passes(599s);
    CHECK(job.killed.empty());
    for (const WorkerId worker : {0, 1, 2, 3}) job.comes(worker, 0);
    CHECK(job.plan.epoch == 1);
  }
  SECTION("none comes") {
    job.hosts({});
    CHECK_FALSE(job.end);
    CHECK(job.deadline() == job.now + 1s);
    job.passes(1s);
    REQUIRE(job.end);
    CHECK_THAT(job.end->why, Contains("0 of at least 4 ranks are there"));
  }
}

TEST_CASE("a member that lives and does not come is killed after the limit, and counts as lost") {
  Played job = running(four_of(2));
  job.ends(0);
  job.comes(1, 1);
  job.comes(2, 1);
  job.passes(599s);
  CHECK(job.killed.empty());
  job.passes(1s);
  CHECK(job.killed == std::vector{3});
  job.comes(3, 1);  // it wakes before its end
  REQUIRE(job.refused.size() == 1);
  CHECK(job.refused[0].is_failure);
  job.ends(3);
  CHECK(job.members() == std::vector{1, 2});
  CHECK(job.plan.lost.size() == 2);
}

TEST_CASE("who was written off and wakes is told so") {
  Played job = running(four_of(2));
  job.ends(1);
  for (const WorkerId worker : {0, 2, 3}) job.comes(worker, 1);
  job.comes(1, 1);
  REQUIRE(job.refused.size() == 1);
  CHECK(job.refused[0].worker == 1);
  CHECK_THAT(job.refused[0].why, Contains("written off") && Contains("epoch 1") && Contains("epoch 2"));
  job.comes(2, 1);  // an epoch that is over
  CHECK(job.refused.size() == 2);
}

TEST_CASE("a host that is no longer listed is left at a commit, and its ranks are no failures") {
  Played job = running(four_of(2), {{"a", 2}, {"b", 2}});
  job.hosts({{"a", 2}});
  REQUIRE(job.announced.size() == 1);
  CHECK_THAT(job.announced[0].why, Contains("no longer listed"));
  job.all_come(1, 3);
  CHECK(job.plan.epoch == 2);
  CHECK(job.members() == std::vector{0, 1});
  CHECK(job.plan.lost.empty());
  REQUIRE(job.refused.size() == 2);
  for (const auto& refusal : job.refused) CHECK_FALSE(refusal.is_failure);
  job.ends(2, "");
  job.ends(3, "");
  CHECK(job.plan.epoch == 2);
  CHECK_FALSE(job.end);
  job.hosts({{"a", 2}, {"b", 2}});
  CHECK(job.starts.size() == 6);  // the host is back, without a cooldown
}

TEST_CASE("ranks that leave stay until others hold what only they hold") {
  Played job = running(four_of(1), {{"a", 2}, {"b", 2}});
  job.hosts({{"a", 2}});
  job.comes(0, 1, 2);
  job.comes(1, 1, 2);
  job.comes(2, 1, 3);
  job.comes(3, 1, 3);
  CHECK(job.members() == std::vector{0, 1, 2, 3});
  CHECK(job.plan.holders() == std::vector{2, 3});
  CHECK(job.announced.size() == 2);  // again, for the new epoch
  job.all_come(2, 4);
  CHECK(job.members() == std::vector{0, 1});
}

TEST_CASE("the last listed host is left for another one, and its last rank hands the state over") {
  Played job = running(four_of(1));
  job.hosts({});
  CHECK(job.announced.empty());  // nobody else is there
  job.hosts({{"b", 1}});
  job.comes(4, 0);
  REQUIRE(job.announced.size() == 1);
  job.all_come(1, 7);
  CHECK(job.members() == std::vector{0, 1, 2, 4});  // never more than --max-np
  CHECK(job.plan.holders() == std::vector{0, 1, 2});
  CHECK(job.refused.size() == 1);
  job.all_come(2, 8);
  CHECK(job.members() == std::vector{4});
  CHECK(job.plan.newest_commit() == 8);
}

TEST_CASE("a process that waits as a spare takes a lost rank's place at once") {
  MembershipLimits limits = four_of(4);
  limits.spares = 1;
  Played job(limits, {{"a", 8}});
  REQUIRE(job.starts.size() == 5);
  for (WorkerId worker = 0; worker < 5; ++worker) job.comes(worker, 0);
  CHECK(job.members() == std::vector{0, 1, 2, 3});
  CHECK(job.announced.empty());
  job.ends(1);
  for (const WorkerId worker : {0, 2, 3}) job.comes(worker, 1, 2);
  CHECK(job.members() == std::vector{0, 2, 3, 4});
}

TEST_CASE("three losses without a commit between end the job, and a commit starts the count anew") {
  Played job = running({.first_np = 4, .min_np = 1, .max_np = 4, .spares = 0, .reset_limit = {}});
  job.ends(3);
  job.all_come(1, 1);
  job.ends(2);
  job.all_come(2, 1);
  CHECK(job.plan.epoch == 3);
  SECTION("without a commit") {
    job.ends(1, "exited with status code 7");
    job.comes(0, 3, 1);
    REQUIRE(job.end);
    CHECK(job.end->is_failure);
    CHECK_THAT(job.end->why, Contains("3 times without a commit") && Contains("status code 7"));
  }
  SECTION("with a commit") {
    job.ends(1);
    job.comes(0, 3, 2);
    CHECK(job.plan.epoch == 4);
    CHECK_FALSE(job.end);
  }
}

TEST_CASE("the reset limit counts changes after the first epoch") {
  MembershipLimits limits = four_of(1);
  limits.reset_limit = 1;
  Played job = running(limits);
  job.ends(3);
  job.all_come(1, 1);
  CHECK(job.plan.epoch == 2);
  job.ends(2);
  job.all_come(2, 2);
  REQUIRE(job.end);
  CHECK_THAT(job.end->why, Contains("--reset-limit"));
}

TEST_CASE("an error that every rank raises by itself ends the job") {
  Played job = running(four_of(1));
  for (WorkerId worker = 0; worker < 4; ++worker) job.ends(worker, "exited with status code 1");
  REQUIRE(job.end);
  CHECK(job.end->is_failure);
  CHECK_THAT(job.end->why, Contains("no rank is left") && Contains("status code 1"));
}

TEST_CASE("the job has ended well when the ranks of the last epoch have") {
  Played job = running(four_of(1));
  job.ends(3);
  job.all_come(1, 1);
  for (const WorkerId worker : {0, 1}) job.ends(worker, "");
  job.passes(20s);
  CHECK(job.starts.size() == 4);  // the program is at its end: no newcomers
  CHECK_FALSE(job.end);
  job.ends(2, "");
  REQUIRE(job.end);
  CHECK_FALSE(job.end->is_failure);
}

TEST_CASE("a rank lost while others have ended well leaves the survivors an epoch, or fails the job") {
  Played job = running(four_of(1));
  job.ends(0, "");
  job.ends(1);
  SECTION("survivors meet") {
    job.comes(2, 1, 1);
    job.comes(3, 1, 1);
    CHECK(job.members() == std::vector{2, 3});
    job.ends(2, "");
    job.ends(3, "");
    REQUIRE(job.end);
    CHECK_FALSE(job.end->is_failure);
  }
  SECTION("none comes") {
    job.ends(2, "");
    job.ends(3, "");
    REQUIRE(job.end);
    CHECK(job.end->is_failure);
  }
}

TEST_CASE(
    "once a rank has ended well, the survivors of a loss go on, although they are fewer than --min-np") {
  Played job = running(four_of(4));  // the default: --min-np is -np
  job.ends(0, "");
  job.ends(1);
  job.comes(2, 1, 1);
  CHECK(job.plan.epoch == 1);
  job.comes(3, 1, 1);
  CHECK(job.members() == std::vector{2, 3});
  job.ends(3);
  job.comes(2, 2, 2);
  CHECK(job.members() == std::vector{2});
  job.ends(2, "");
  REQUIRE(job.end);
  CHECK_FALSE(job.end->is_failure);
}

TEST_CASE("processes that end before init") {
  Played job(four_of(2));
  SECTION("well, all of them") {
    for (WorkerId worker = 0; worker < 4; ++worker) job.ends(worker, "");
    REQUIRE(job.end);
    CHECK_FALSE(job.end->is_failure);
    CHECK(job.starts.size() == 4);
  }
  SECTION("well, while another waits") {
    job.comes(0, 0);
    job.ends(1, "");
    REQUIRE(job.end);
    CHECK(job.end->is_failure);
  }
  SECTION("with failures, all of them") {
    for (WorkerId worker = 0; worker < 4; ++worker) job.ends(worker, "exited with status code 2");
    REQUIRE(job.end);
    CHECK_THAT(job.end->why, Contains("init") && Contains("status code 2"));
  }
  SECTION("with a failure, one of them: its slot is filled again") {
    for (WorkerId worker = 0; worker < 3; ++worker) job.comes(worker, 0);
    job.ends(3);
    CHECK(job.plan.epoch == 0);
    job.passes(10s);
    job.comes(4, 0);
    CHECK(job.members() == std::vector{0, 1, 2, 4});
  }
}

TEST_CASE("a program that fails everywhere before init ends the job, although processes were started again") {
  Played job({.first_np = 2, .min_np = 1, .max_np = 2, .least_cooldown = 1s, .most_cooldown = 1s},
             {{"a", 2}});
  job.ends(0, "exited with status code 1");
  job.passes(1s);
  REQUIRE(job.starts.size() == 3);
  CHECK_FALSE(job.end);
  SECTION("all have failed") {
    job.ends(1, "exited with status code 1");
    REQUIRE(job.end);
    CHECK_THAT(job.end->why, Contains("no process has come as far as init"));
  }
  SECTION("one has come") {
    job.comes(1, 0);
    job.ends(2, "exited with status code 1");
    CHECK_FALSE(job.end);
  }
}

TEST_CASE("a lost host is left out for its cooldown, and comes back") {
  Played job = running(four_of(2), {{"a", 2}, {"b", 2}});
  job.loses_host("b");
  job.ends(2, "its host is silent");
  job.ends(3, "its host is silent");
  job.comes(0, 1, 1);
  job.comes(1, 1, 1);
  CHECK(job.members() == std::vector{0, 1});
  job.passes(9s);
  CHECK(job.starts.size() == 4);
  job.passes(1s);
  CHECK(job.starts.size() == 6);
}

}  // namespace dabke::test

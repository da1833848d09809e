#include "launcher/elastic/membership.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

using namespace std::chrono_literals;
using namespace launcher;
using Catch::Matchers::Contains;

/// A job as its membership sees it: processes come and go as the test demands, at a time that the test sets.
class Played {
 public:
  explicit Played(MembershipLimits limits, std::vector<Host> hosts = {{"a", 4}}) : membership_(limits) {
    membership_.set_hosts(std::move(hosts), now);
    take();
  }

  void comes(WorkerId worker, std::uint64_t epoch, std::optional<std::uint64_t> commit = {}) {
    bootstrap::Arrival arrival{.worker = worker,
                               .visit = ++visits_[worker],
                               .epoch = epoch,
                               .commit = commit,
                               .host = "",
                               .process = {},
                               .process_sets = ""};
    membership_.take_arrival(arrival, now);
    take();
  }
  void all_come(std::uint64_t epoch, std::optional<std::uint64_t> commit = {}) {
    for (const auto& member : std::vector(plan.members)) comes(member.worker, epoch, commit);
  }
  void ends(WorkerId worker, const std::string& failure = "killed by SIGKILL") {
    membership_.take_end(worker, failure, now);
    take();
  }
  void hosts(std::vector<Host> hosts) {
    membership_.set_hosts(std::move(hosts), now);
    take();
  }
  void loses_host(const std::string& host) {
    membership_.take_host_loss(host, now);
    take();
  }
  void passes(Duration time) {
    now += time;
    membership_.tick(now);
    take();
  }
  std::vector<WorkerId> members() const {
    std::vector<WorkerId> workers;
    for (const auto& member : plan.members) workers.push_back(member.worker);
    return workers;
  }
  TimePoint deadline() const { return membership_.deadline(); }

  TimePoint now{1h};
  std::map<WorkerId, Slot> started;  // and not ended by ends()
  std::vector<Membership::Start> starts;
  std::vector<WorkerId> killed;
  bootstrap::EpochPlan plan{.epoch = 0, .members = {}, .lost = {}};
  std::vector<std::uint64_t> answered_visits;
  std::vector<Membership::Announce> announced;
  std::vector<Membership::Refuse> refused;
  std::optional<Membership::End> end;

 private:
  void take() {
    for (Membership::Action& action : membership_.take_actions()) {
      if (auto* start = std::get_if<Membership::Start>(&action)) starts.push_back(*start);
      if (auto* kill = std::get_if<Membership::Kill>(&action)) killed.push_back(kill->worker);
      if (auto* open = std::get_if<Membership::Open>(&action)) {
        plan = open->plan;
        answered_visits = open->visits;
      }
      if (auto* announce = std::get_if<Membership::Announce>(&action)) announced.push_back(*announce);
      if (auto* refuse = std::get_if<Membership::Refuse>(&action)) refused.push_back(*refuse);
      if (auto* over = std::get_if<Membership::End>(&action)) end = *over;
    }
  }

  Membership membership_;
  std::map<WorkerId, std::uint64_t> visits_;
};

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
  job.all_come(2, 9);
  CHECK(job.plan.epoch == 3);
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
  job.passes(10s);
  CHECK(job.starts.size() == 6);  // the host is back
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

/// Plays a job by chance, and checks after each event what must always hold.
TEST_CASE("jobs by chance keep their promises") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 chance(seed);
    const auto below = [&](int n) { return static_cast<int>(chance() % static_cast<unsigned>(n)); };
    const int min_np = 1 + below(3), max_np = min_np + below(4);
    const std::vector<Host> all_hosts = {{"a", 3}, {"b", 2}, {"c", 2}};
    Played job(
        {.first_np = min_np, .min_np = min_np, .max_np = max_np, .spares = below(2), .reset_limit = {}},
        all_hosts);
    std::map<WorkerId, std::uint64_t> in_epoch;  // of each live process; 0: none yet
    std::map<WorkerId, std::uint64_t> commit;
    std::set<WorkerId> waits, gone;
    std::size_t seen_starts = 0, seen_killed = 0, seen_refused = 0;
    std::uint64_t epoch = 0, step = 0;
    const auto check = [&] {
      for (; seen_starts < job.starts.size(); ++seen_starts) in_epoch[job.starts[seen_starts].worker] = 0;
      for (; seen_refused < job.refused.size(); ++seen_refused) {
        waits.erase(job.refused[seen_refused].worker);
        gone.insert(job.refused[seen_refused].worker);
      }
      if (job.plan.epoch == epoch) return;
      REQUIRE(job.plan.epoch == epoch + 1);
      epoch = job.plan.epoch;
      const int size = static_cast<int>(job.plan.members.size());
      REQUIRE(size >= min_np);
      REQUIRE(size <= max_np);
      int former = -1;
      bool is_past_survivors = false;
      std::set<Slot> slots;
      for (const auto& member : job.plan.members) {
        REQUIRE(waits.contains(member.worker));  // nobody is counted on who has not come
        REQUIRE(slots.insert({member.host, member.local_rank}).second);
        if (member.former_rank < 0) is_past_survivors = true;
        REQUIRE((member.former_rank < 0 || (!is_past_survivors && member.former_rank > former)));
        former = std::max(former, member.former_rank);
        waits.erase(member.worker);
        in_epoch[member.worker] = epoch;
      }
      const auto newest = job.plan.newest_commit();
      for (const auto& member : job.plan.members) {
        if (newest) commit[member.worker] = *newest;  // sync
      }
    };
    check();
    for (int event = 0; event < 120 && !job.end; ++event) {
      std::vector<WorkerId> live;
      for (const auto& [worker, of] : in_epoch) live.push_back(worker);
      const int what = below(10);
      if (what < 5 && !live.empty()) {  // a process comes: a new one, or a member whose epoch ends
        const WorkerId worker = live[static_cast<std::size_t>(below(static_cast<int>(live.size())))];
        if (waits.contains(worker) || gone.contains(worker)) continue;
        waits.insert(worker);
        const auto found = commit.find(worker);
        job.comes(worker, in_epoch[worker],
                  found == commit.end() ? std::nullopt : std::optional(found->second));
      } else if (what < 6 && !live.empty()) {
        const WorkerId worker = live[static_cast<std::size_t>(below(static_cast<int>(live.size())))];
        in_epoch.erase(worker);
        waits.erase(worker);
        job.ends(worker, gone.contains(worker) && below(2) == 0 ? "" : "killed by SIGKILL");
      } else if (what < 7) {
        ++step;  // all members of the epoch commit
        for (const auto& [worker, of] : in_epoch) {
          if (of == epoch && epoch > 0 && !waits.contains(worker)) commit[worker] = step;
        }
      } else if (what < 8) {
        std::vector<Host> listed;
        for (const Host& host : all_hosts) {
          if (below(4) != 0) listed.push_back(host);
        }
        job.hosts(listed);
      } else {
        job.passes(Duration(std::chrono::seconds(below(30))));
      }
      check();
    }
    // From any state, the job goes on or ends: everybody who lives comes, and time passes.
    for (int round = 0; round < 60 && !job.end && epoch == job.plan.epoch; ++round) {
      const std::uint64_t before = epoch;
      for (const auto& [worker, of] : std::map(in_epoch)) {
        if (waits.contains(worker) || gone.contains(worker)) continue;
        waits.insert(worker);
        job.comes(worker, of, 1000);
        check();
        if (job.end || epoch != before) break;
      }
      if (job.end || epoch != before) break;
      job.hosts(all_hosts);
      job.passes(100s);
      for (; seen_killed < job.killed.size(); ++seen_killed) {
        in_epoch.erase(job.killed[seen_killed]);
        waits.erase(job.killed[seen_killed]);
        job.ends(job.killed[seen_killed]);
      }
      check();
      if (epoch != before) break;
      REQUIRE(round < 59);
    }
  }
}

}  // namespace dabke::test

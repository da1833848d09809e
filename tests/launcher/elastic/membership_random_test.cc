// Random elastic jobs, and the promises that each of their epochs keeps.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/launcher/elastic/played_job.h"

namespace dabke::test {
using namespace std::chrono_literals;

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

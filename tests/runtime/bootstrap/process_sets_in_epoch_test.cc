#include "runtime/bootstrap/process_sets_in_epoch.h"

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

namespace dabke::test {

using namespace bootstrap;
using Catch::Contains;

namespace {

EpochMember member(int former_rank, std::string process_sets) {
  EpochMember made;
  made.former_rank = former_rank;
  made.process_sets = std::move(process_sets);
  return made;
}

EpochPlan plan_of(std::vector<EpochMember> members, std::vector<LostMember> lost = {}) {
  EpochPlan plan;
  plan.epoch = 7;
  plan.members = std::move(members);
  plan.lost = std::move(lost);
  return plan;
}

/// The list of a process that has these sets.
std::string text_of(const std::string& configured, std::vector<FirstSet> sets, ProcessSetId next_id) {
  return process_sets_to_text(configured, {std::move(sets), {}, next_id});
}

}  // namespace

TEST_CASE("a set goes on under its id, with the new ranks of its processes, and new processes get it too") {
  const std::string listed = text_of("", {{3, {1, 3}}, {5, {2, 3}, true}}, 6);
  const EpochPlan plan =
      plan_of({member(1, listed), member(2, listed), member(3, listed), member(-1, text_of("", {}, 1))},
              {{0, "b", "killed"}});
  const FirstSets sets = process_sets_in(plan, {});
  CHECK(sets.sets == std::vector<FirstSet>{{3, {0, 2}}, {5, {1, 2}, true}});
  CHECK(sets.lost.empty());
  CHECK(sets.next_id == 6);
}

TEST_CASE("a set that lost a rank names it, and so it does in later epochs") {
  const std::string listed = text_of("", {{1, {0, 1}}, {2, {1, 2}}, {3, {0, 2}}}, 4);
  const FirstSets sets =
      process_sets_in(plan_of({member(0, listed), member(2, listed)}, {{1, "b", "killed"}}), {});
  CHECK(sets.sets == std::vector<FirstSet>{{3, {0, 1}}});
  CHECK(sets.lost.at(1) == "process set 1 had rank 1 on b, which was lost before epoch 7");
  CHECK(sets.lost.at(2) == "process set 2 had rank 1 on b, which was lost before epoch 7");
  EpochPlan later = plan_of({member(0, process_sets_to_text("", sets))});  // rank 1 has left in good order
  later.epoch = 8;
  const FirstSets then = process_sets_in(later, sets);
  CHECK(then.sets.empty());
  CHECK(then.lost.at(1) == sets.lost.at(1));
  CHECK(then.lost.at(3) == "process set 3 had rank 1, which left before epoch 8");
  CHECK(then.next_id == 4);
}

TEST_CASE("a set that not all of its ranks have does not go on, and its id is not used again") {
  const EpochPlan plan = plan_of({member(0, text_of("", {{1, {0, 1}}}, 2)), member(1, text_of("", {}, 1))});
  const FirstSets sets = process_sets_in(plan, {});
  CHECK(sets.sets.empty());
  CHECK_THAT(sets.lost.at(1), Contains("was not there on all of its ranks when epoch 7 began"));
  CHECK(sets.next_id == 2);
}

TEST_CASE("sets of the configuration are given by rank in each epoch, and need their ranks") {
  const std::string listed = text_of("0,1;1,3", {{1, {0, 1}}, {2, {1, 3}}, {3, {0, 2}}}, 4);
  const FirstSets small = process_sets_in(
      plan_of({member(0, listed), member(2, listed), member(3, listed)}, {{1, "b", "killed"}}), {});
  CHECK(small.sets == std::vector<FirstSet>{{1, {0, 1}}, {3, {0, 1}}});
  CHECK_THAT(small.lost.at(2),
             Contains("process set 2 of the configuration has rank 3, but epoch 7 has only 3"));
  const std::string later = process_sets_to_text("0,1;1,3", small);
  const FirstSets large = process_sets_in(
      plan_of({member(0, later), member(1, later), member(2, later), member(-1, text_of("0,1;1,3", {}, 1))}),
      small);
  CHECK(large.sets == std::vector<FirstSet>{{1, {0, 1}}, {2, {1, 3}}, {3, {0, 1}}});
  CHECK(large.lost.empty());
}

TEST_CASE("the first member whose configured sets differ from rank 0's is named") {
  EpochPlan plan =
      plan_of({member(-1, "0,1|1|"), member(0, "0,1|4|3:0,1"), member(-1, "|1|"), member(-1, "1,2|1|")});
  const Status differs = check_process_sets(plan);
  CHECK(differs.code() == Code::mismatch);
  CHECK_THAT(differs.message(), Contains("process sets '0,1', rank 2 with ''"));
  plan.members.resize(2);
  CHECK(check_process_sets(plan).is_ok());
}

TEST_CASE("a list of sets that makes no sense adds no set") {
  for (const char* text : {"", "|", "|x|y:z", "|1|0:1,2", "||:", "|3|;;"}) {
    CAPTURE(text);
    CHECK(process_sets_in(plan_of({member(0, text)}), {}).sets.empty());
  }
}

}  // namespace dabke::test

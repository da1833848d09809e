#include "tests/sim/elastic/elastic_invariants.h"

#include <catch2/catch.hpp>

#include "tests/sim/pending_tokens.h"

namespace dabke::test {
namespace {

using Catch::Contains;

/// Epoch 2 of processes 4, 5 and 6, whose newest commits are 7, 8 and none.
bootstrap::EpochPlan plan_of_three() {
  bootstrap::EpochPlan plan{.epoch = 2, .change = 0, .members = {}, .lost = {}};
  plan.members.push_back({.worker = 4, .former_rank = 1, .commit = 7, .process = {}, .host = "a"});
  plan.members.push_back({.worker = 5, .former_rank = 2, .commit = 8, .process = {}, .host = "a"});
  plan.members.push_back({.worker = 6, .former_rank = -1, .commit = {}, .process = {}, .host = "b"});
  return plan;
}

}  // namespace

TEST_CASE("the check of elastic jobs finds a plan that members read differently") {
  ElasticInvariants invariants;
  invariants.read_plan(1, 0, "1 0\n");
  invariants.read_plan(1, 1, "1 0\n");
  invariants.read_plan(2, 1, "2 0\n");
  CHECK_THROWS_WITH(invariants.read_plan(1, 2, "1 1\n"), Contains("epoch 1: process 2 reads the plan '1 1"));
}

TEST_CASE("the check of elastic jobs finds orders of another epoch, and processes that are not members") {
  const ElasticInvariants invariants;
  const bootstrap::EpochPlan plan = plan_of_three();
  CHECK_NOTHROW(invariants.execute(plan, 1, 5, 2, 2));
  CHECK_THROWS_WITH(invariants.execute(plan, 1, 5, 2, 1), Contains("executes an order of epoch 1 as rank 1"));
  CHECK_THROWS_WITH(invariants.execute(plan, 1, 5, 3, 2), Contains("process 5, of epoch 3, executes"));
  CHECK_THROWS_WITH(invariants.execute(plan, 1, 3, 2, 2), Contains("process 3, of epoch 2, executes"));
}

TEST_CASE("the check of elastic jobs finds a result that is not that of the epoch's members") {
  const ElasticInvariants invariants;
  CHECK_NOTHROW(invariants.receive(plan_of_three(), 0, "x", {6, 3}, {6, 3}));
  CHECK_THROWS_WITH(invariants.receive(plan_of_three(), 0, "x", {4, 2}, {6, 3}),
                    Contains("'x' has the result [4, 2], but its 3 members make [6, 3]"));
}

TEST_CASE("the check of elastic jobs finds commits that differ, in their state or in their changes") {
  ElasticInvariants invariants;
  invariants.commit(2, 0, 9, {10, 11}, 0);
  invariants.commit(2, 1, 9, {10, 11}, 0);
  invariants.commit(3, 1, 9, {10, 12}, 1);  // the step was repeated by others
  CHECK_THROWS_WITH(invariants.commit(2, 2, 9, {10, 12}, 0),
                    Contains("commit 9 is step 10 with weights 11 on rank 0, and step 10 with weights 12"));
  CHECK_THROWS_WITH(invariants.commit(2, 2, 9, {10, 11}, 1),
                    Contains("rank 0 sees 0 announced changes at commit 9, and rank 2 sees 1"));
  CHECK(invariants.commits() == 5);
}

TEST_CASE("the check of elastic jobs finds a holder without the newest commit, and one that is not named") {
  const ElasticInvariants invariants;
  const bootstrap::EpochPlan plan = plan_of_three();
  CHECK_NOTHROW(invariants.hold(plan, 0, 7));
  CHECK_NOTHROW(invariants.hold(plan, 1, 8));
  CHECK_NOTHROW(invariants.hold(plan, 2, {}));
  CHECK_THROWS_WITH(invariants.hold(plan, 1, 7), Contains("holds commit 7; the newest is 8"));
  CHECK_THROWS_WITH(invariants.hold(plan, 1, {}), Contains("rank 1 holds commit -"));
  CHECK_THROWS_WITH(invariants.hold(plan, 0, 8), Contains("the roster does not name it as a holder"));
  CHECK_THROWS_WITH(invariants.hold(plan, 0, 9), Contains("rank 0 holds commit 9; the newest is 8"));
}

TEST_CASE("the check of elastic jobs finds holders that send different states") {
  ElasticInvariants invariants;
  invariants.send_state(2, 0, {5, 6});
  invariants.send_state(2, 1, {5, 6});
  CHECK_THROWS_WITH(
      invariants.send_state(2, 2, {5, 7}),
      Contains("holder 0 sends step 5 with weights 6, and holder 2 sends step 5 with weights 7"));
}

TEST_CASE("the check of elastic jobs finds an operation that fails without a cause") {
  const ElasticInvariants invariants;
  const Status why(Code::peer_lost, "connection reset");
  CHECK_NOTHROW(invariants.fail(plan_of_three(), 0, "x", why, true));
  CHECK_THROWS_WITH(invariants.fail(plan_of_three(), 0, "x", why, false),
                    Contains("'x' fails though no member was lost: connection reset"));
}

}  // namespace dabke::test

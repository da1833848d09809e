#include <catch2/catch.hpp>

#include "runtime/bootstrap/elastic/arrival.h"
#include "runtime/bootstrap/elastic/epoch_plan.h"

namespace dabke::test {

using namespace bootstrap;

TEST_CASE("an arrival is read as it was written") {
  Arrival arrival{.worker = 7,
                  .visit = 3,
                  .epoch = 2,
                  .commit = 41,
                  .repeated_steps = 5,
                  .host = "a host",
                  .process = {},
                  .process_sets = "0,1;2"};
  arrival.process = links::identity_of_this_process();
  CHECK(read_arrival(to_text(arrival)) == arrival);
  arrival.commit.reset();
  arrival.process_sets = "";
  CHECK(read_arrival(to_text(arrival)) == arrival);
}

TEST_CASE("texts that make no sense are no arrivals") {
  for (const char* text : {"", "\n", "7 3 2 41", "7 3 x 41 0 p a\n\n", "7 3 2 y 0 p a\n\n",
                           "7 3 2 - y p a\n\n", "7 3 2 - 0 p\n\n", "-"}) {
    CAPTURE(text);
    CHECK_FALSE(read_arrival(text));
  }
}

TEST_CASE("the key of arrivals names the process") {
  CHECK(arriving_worker(arrival_key(12)) == 12);
  CHECK_FALSE(arriving_worker("elastic/arrival/x"));
  CHECK_FALSE(arriving_worker("hello/12"));
}

TEST_CASE("a plan is read as it was written") {
  EpochPlan plan{.epoch = 4,
                 .change = 3,
                 .members = {},
                 .lost = {{3, "b", "killed by SIGKILL"}, {0, "a", "its host\nis silent"}}};
  plan.members.push_back(
      {.worker = 1, .former_rank = 1, .local_rank = 2, .commit = 8, .process = {}, .host = "a"});
  plan.members.push_back(
      {.worker = 9, .former_rank = -1, .local_rank = 0, .commit = {}, .process = {}, .host = "c d"});
  plan.members.push_back({.worker = 10,
                          .former_rank = -1,
                          .local_rank = 1,
                          .commit = {},
                          .process = {},
                          .host = "a",
                          .process_sets = "0,1;0,2"});
  plan.members.push_back(plan.members.back());
  plan.members.back().process = {.boot_id = {std::byte{7}}, .pid_namespace = 5, .pid = 3};
  plan.members.push_back(plan.members.back());
  plan.members.back().process.pid = 4;
  plan.members.push_back(plan.members.front());
  const auto read = read_epoch_plan(to_text(plan));
  REQUIRE(read);
  plan.lost[1].why = "its host is silent";
  CHECK(*read == plan);
  CHECK_FALSE(read_epoch_plan("4 0\nmember 1 2\n"));
  CHECK_FALSE(read_epoch_plan("4 0\nmember 1 2 0 - 7\n"));
  CHECK_FALSE(read_epoch_plan("four 0\n"));
  CHECK_FALSE(read_epoch_plan("4\n"));
  CHECK_FALSE(read_epoch_plan("4 0\nother 1\n"));
}

TEST_CASE("the ranks with the newest commit hold it, and nobody holds one if there is none") {
  EpochPlan plan;
  const auto with = [](std::optional<std::uint64_t> commit) {
    return EpochMember{
        .worker = 0, .former_rank = 0, .local_rank = 0, .commit = commit, .process = {}, .host = "a"};
  };
  plan.members = {with(4), with(5), with({}), with(5)};
  CHECK(plan.newest_commit() == 5);
  CHECK(plan.holders() == std::vector{1, 3});
  plan.members = {with({}), with({})};
  CHECK_FALSE(plan.newest_commit());
  CHECK(plan.holders().empty());
  plan.members = {with(0), with({})};
  CHECK(plan.holders() == std::vector{0});
}

}  // namespace dabke::test

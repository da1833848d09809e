#include "launcher/job/job_ranks.h"

#include <catch2/catch.hpp>

#include "launcher/reach/agent_link.h"

namespace dabke::test {
using namespace launcher;
namespace {

using namespace std::chrono_literals;

/// Ranks 0 and 1 on one host, rank 2 on another.
struct Ranks {
  Ranks() {
    ranks.add({.rank = 0, .size = 3, .host = "a"}, &a);
    ranks.add({.rank = 1, .size = 3, .host = "a"}, &a);
    ranks.add({.rank = 2, .size = 3, .host = "b"}, &b);
  }
  AgentLink a{"a", {}, 1s}, b{"b", {}, 1s};
  JobRanks ranks;
};

}  // namespace

TEST_CASE("an agent has the ranks of its host, and no number makes another one's its own") {
  const Ranks job;
  REQUIRE(job.ranks.find(job.a, 1) != nullptr);
  CHECK(job.ranks.find(job.a, 1)->rank() == 1);
  CHECK(job.ranks.find(job.b, 2) != nullptr);
  CHECK(job.ranks.find(job.a, 2) == nullptr);
  CHECK(job.ranks.find(job.b, 3) == nullptr);
  CHECK(job.ranks.find(job.b, -1) == nullptr);
}

TEST_CASE("a rank runs from its start to its end, and something of it may be left after that") {
  Ranks job;
  CHECK_FALSE(job.ranks.all()[1].is_running());
  job.ranks.set_started(1, 100, 200);
  CHECK(job.ranks.all()[1].is_running());
  CHECK(job.ranks.all()[1].supervisor == 200);
  CHECK_FALSE(job.ranks.has_any_ended());
  job.ranks.set_ended(1);
  CHECK_FALSE(job.ranks.all()[1].is_running());
  CHECK(job.ranks.has_any_ended());
  CHECK_FALSE(job.ranks.have_all_ended());
  CHECK(job.ranks.are_any_left(job.a));
}

TEST_CASE("ranks are left until each is over, on every host and on one") {
  Ranks job;
  job.ranks.set_over(0);
  CHECK(job.ranks.are_any_left(job.a));
  job.ranks.set_over(1);
  CHECK_FALSE(job.ranks.are_any_left(job.a));
  CHECK(job.ranks.are_any_left(job.b));
  CHECK(job.ranks.are_any_left());
  job.ranks.set_over(2);
  CHECK_FALSE(job.ranks.are_any_left());
}

TEST_CASE("hosts that turn out to be one machine give their ranks one name, and nothing else changes") {
  Ranks job;
  job.ranks.set_started(2, 100, 200);
  auto placements = job.ranks.placements();
  placements[2].host = "a";
  job.ranks.place(placements);
  CHECK(job.ranks.all()[2].placement.host == "a");
  CHECK(job.ranks.find(job.b, 2)->pid == 100);
}

}  // namespace dabke::test

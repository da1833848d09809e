#include "launcher/job/job_losses.h"

#include <chrono>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;

TEST_CASE("the losses of a job are named over all epochs, and only the last eight of them") {
  JobLosses losses;
  CHECK(losses.lines().empty());
  const TimePoint first{std::chrono::seconds(1)};
  losses.add(3, first, "rank 3 was killed");
  losses.add(0, first + std::chrono::seconds(1), "rank 0 was killed");
  CHECK(losses.first_time() == first);
  losses.begin_epoch();
  CHECK(losses.lines() == std::vector<std::string>{"lost: rank 3 was killed", "lost: rank 0 was killed"});
  for (int rank = 10; rank < 19; ++rank) losses.add(rank, first, std::to_string(rank));
  CHECK(losses.count() == 11);
  const std::vector<std::string> lines = losses.lines();
  REQUIRE(lines.size() == 9);
  CHECK(lines.front() == "lost: 11");
  CHECK(lines[7] == "lost: 18");
  CHECK(lines.back() == "lost: and 3 ranks earlier");
}

TEST_CASE("the losses of an epoch are known by their ranks until the next epoch opens") {
  JobLosses losses;
  losses.add(1, TimePoint{}, "rank 1 was killed");
  CHECK(losses.text_of(1) == "rank 1 was killed");
  CHECK(losses.text_of(2).empty());
  losses.begin_epoch();
  CHECK(losses.text_of(1).empty());
  CHECK_FALSE(losses.first_time());
  CHECK(losses.count() == 1);
}

}  // namespace dabke::test

#include "runtime/reports/recorded_steps.h"

#include <catch2/catch.hpp>

#include <map>

namespace dabke::test {
namespace {

using Then = reports::RecordedSteps::Then;

/// The steps at whose end the timeline starts and stops, if every `stride`-th of 200 steps is marked.
std::map<std::uint64_t, Then> changes(StepRange range, std::uint64_t stride = 1) {
  reports::RecordedSteps steps(range);
  std::map<std::uint64_t, Then> found;
  for (std::uint64_t step = 0; step < 200; step += stride) {
    if (const Then then = steps.ended(step); then != Then::nothing) found[step] = then;
  }
  return found;
}

}  // namespace

TEST_CASE("a timeline of some steps starts one before the first and stops one after the last") {
  CHECK(changes({100, 110}) == std::map<std::uint64_t, Then>{{98, Then::start}, {111, Then::stop}});
  CHECK(changes({100, 110}, 7) == std::map<std::uint64_t, Then>{{98, Then::start}, {112, Then::stop}});
  CHECK(changes({100, 110}, 50) == std::map<std::uint64_t, Then>{{100, Then::start}, {150, Then::stop}});
  CHECK(changes({100, 500}) == std::map<std::uint64_t, Then>{{98, Then::start}});
}

TEST_CASE("a timeline of the first steps starts with the job") {
  CHECK(reports::RecordedSteps({1, 10}).starts_with_job());
  CHECK_FALSE(reports::RecordedSteps({2, 10}).starts_with_job());
  CHECK(changes({1, 10}) == std::map<std::uint64_t, Then>{{11, Then::stop}});
}

TEST_CASE("a later epoch of an elastic job records the first steps only if they are repeated") {
  reports::RecordedSteps steps({0, 10}, false);
  CHECK_FALSE(steps.starts_with_job());
  CHECK(steps.ended(500) == Then::nothing);
  reports::RecordedSteps repeated({0, 10}, false);
  CHECK(repeated.ended(4) == Then::start);
  CHECK(repeated.ended(11) == Then::stop);
}

TEST_CASE("where no marked step is among those that are wanted no timeline is written") {
  CHECK(changes({101, 110}, 60).empty());
  CHECK(changes({1000, 1010}).empty());
}

}  // namespace dabke::test

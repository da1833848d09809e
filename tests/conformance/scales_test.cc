// Factors that a dtype must round, and factors that are not ordinary numbers, such
// as a loss scale that has overflowed.
#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "tests/conformance/factors.h"
#include "tests/in_process/job.h"
#include "tests/patience.h"

namespace dabke::test {

using Catch::Matchers::Contains;

TEST_CASE(
    "each factor is rounded to the dtype and multiplies once, with the same bits on every backend, alone or "
    "not") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const int ranks = GENERATE(from_range(test::kSanitized ? std::vector{3} : std::vector{2, 3}));
  CAPTURE(backend, ranks);
  for (const auto& wrong : run_on_ranks(backend, ranks, wrong_factors))
    CHECK(wrong == std::vector<std::string>{});
}

TEST_CASE(
    "floats times infinity or NaN are what arithmetic says, on every rank; integers are refused at once") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const double factor =
      GENERATE(std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN());
  struct Seen {
    std::vector<float> before, after;
    Status refused;
    std::vector<float> next = {1};
  };
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    Seen out{{1, 2}, {1, 2}, {}, {1}};
    for (int round = 0; round < 2; ++round) {  // new in the first round, then cached
      out.before = out.after = {1, 2};
      must(self.allreduce(out.before, {.name = "before", .prescale = factor}));
      must(self.allreduce(out.after, {.name = "after", .postscale = factor}));
    }
    std::vector<std::int32_t> whole = {1};
    out.refused = self.allreduce(whole, {.name = "whole", .postscale = factor});
    must(self.allreduce(out.next));
    return out;
  });
  const auto is_right = [&](float value) { return std::isnan(factor) ? std::isnan(value) : value == factor; };
  for (const Seen& one : seen) {
    for (const auto& values : {one.before, one.after}) {
      for (const float value : values) CHECK(is_right(value));
    }
    CHECK(one.refused.code() == Code::invalid_argument);
    CHECK_THAT(one.refused.message(), Contains("'whole'") && Contains("int32") && Contains("postscale"));
    CHECK(one.next == std::vector<float>{2});
  }
}

}  // namespace dabke::test

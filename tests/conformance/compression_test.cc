// Wire compression, requested by the configuration or by the call.
#include <catch2/catch.hpp>

#include "runtime/base/half.h"
#include "tests/in_process/job.h"

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;

const Setup kTwoHosts = setup_named("hierarchical");
constexpr float kThird = 1.0f / 3;

/// The sum of two contributions of a third in float16.
float as_float16() {
  const auto once = static_cast<float>(f16(kThird));
  return static_cast<float>(f16(once + once));
}

}  // namespace

TEST_CASE("DABKE_COMPRESSION holds for float32 allreduces between hosts, unless the call says otherwise") {
  Config config = quiet_config();
  config.compression = Compression::float16;
  struct Seen {
    std::vector<float> by_config{kThird}, by_call{kThird}, left_alone{kThird}, root{kThird};
    std::vector<double> wide{kThird};
  };
  const auto seen = run_on_ranks(kTwoHosts, 2, config, [](Rank& self) {
    Seen out;
    must(self.allreduce(out.by_config));
    must(self.allreduce(out.by_call, {.compression = Compression::bfloat16}));
    must(self.allreduce(out.left_alone, {.compression = Compression::none}));
    must(self.allreduce(out.wide));
    must(self.broadcast(out.root));
    return out;
  });
  for (const Seen& one : seen) {
    CHECK(one.by_config == std::vector{as_float16()});
    CHECK(one.by_call == std::vector{static_cast<float>(bf16(kThird)) * 2});
    CHECK(one.left_alone == std::vector{kThird * 2});
    CHECK(one.wide == std::vector{static_cast<double>(kThird) * 2});
    CHECK(one.root == std::vector{kThird});
  }
}

TEST_CASE("compression is off by default, and does nothing within a host") {
  const auto between = run_on_ranks(kTwoHosts, 2, [](Rank& self) {
    std::vector<float> x{kThird};
    must(self.allreduce(x));
    return x;
  });
  const Setup inside = setup_named("shm");
  const auto within = run_on_ranks(inside, 2, [](Rank& self) {
    std::vector<float> x{kThird};
    must(self.allreduce(x, {.compression = Compression::bfloat16}));
    return x;
  });
  CHECK(between == std::vector<std::vector<float>>(2, {kThird * 2}));
  CHECK(within == std::vector<std::vector<float>>(2, {kThird * 2}));
}

TEST_CASE("ranks that ask for different compressions get an error that says so") {
  const auto seen = run_on_ranks(kTwoHosts, 2, [](Rank& self) {
    std::vector<float> x{1};
    const auto mine = self.rank() == 0 ? Compression::none : Compression::float16;
    return must_fail(self.allreduce(x, {.name = "x", .compression = mine}));
  });
  for (const Status& status : seen) {
    CHECK(status.code() == Code::mismatch);
    CHECK_THAT(status.message(), Contains("compression float16"));
  }
}

}  // namespace dabke::test

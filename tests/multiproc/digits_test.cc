// A real training run gives the same weights on any number of ranks.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

/// The weights at the end of a training of one or two epochs on `ranks` ranks.
std::vector<float> train(int ranks, const std::string& batch_size) {
  const TemporaryDirectory place;
  LauncherRun run({"-np", std::to_string(ranks), DIGITS, "--epochs", test::kSanitized ? "1" : "2",
                   "--batch-size", batch_size, "--save-weights", place.path() + "/weights"});
  const Finished finished = run.finish();
  CAPTURE(ranks, batch_size, finished.out, finished.error);
  REQUIRE(finished.exit_code == 0);
  const std::string last = lines_of(finished.out).back();
  CHECK_THAT(last, Catch::Matches("\\[0\\]<stdout>:accuracy [0-9]+\\.[0-9] %"));
  const std::string bytes = place.text_of("weights");
  std::vector<float> weights(bytes.size() / sizeof(float));
  std::memcpy(weights.data(), bytes.data(), weights.size() * sizeof(float));
  return weights;
}

}  // namespace

TEST_CASE(
    "digits ends with the same weights on 1, 2 and 4 ranks, also when the batch cannot be dealt out evenly") {
  const std::string batch_size = GENERATE("64", "37");
  const std::vector<float> alone = train(1, batch_size);
  REQUIRE(alone.size() > 10000);
  for (const int ranks : {2, 4}) {
    const std::vector<float> together = train(ranks, batch_size);
    REQUIRE(together.size() == alone.size());
    float largest = 0;
    for (std::size_t i = 0; i < alone.size(); ++i)
      largest = std::max(largest, std::abs(alone[i] - together[i]));
    CHECK(largest < 1e-4f);
  }
}

}  // namespace dabke::test

// A real training run gives the same weights on any number of ranks.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/patience.h"
#include "tests/send_signal.h"

namespace dabke::test {
namespace {

/// The weights that the run saves in `place` at its end.
std::vector<float> weights_of(LauncherRun& run, const TemporaryDirectory& place) {
  const Finished finished = run.finish();
  CAPTURE(finished.out, finished.error);
  REQUIRE(finished.exit_code == 0);
  const std::string last = lines_of(finished.out).back();
  CHECK_THAT(last, Catch::Matches("\\[0\\]<stdout>:accuracy [0-9]+\\.[0-9] %"));
  const std::string bytes = place.text_of("weights");
  std::vector<float> weights(bytes.size() / sizeof(float));
  std::memcpy(weights.data(), bytes.data(), weights.size() * sizeof(float));
  return weights;
}

/// The weights at the end of a training of one or two epochs on `ranks` ranks.
std::vector<float> train(int ranks, const std::string& batch_size) {
  const TemporaryDirectory place;
  LauncherRun run({"-np", std::to_string(ranks), DIGITS, "--epochs", test::kSanitized ? "1" : "2",
                   "--batch-size", batch_size, "--save-weights", place.path() + "/weights"});
  CAPTURE(ranks, batch_size);
  return weights_of(run, place);
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

/// The weights of a training of a few epochs. Rank 0 is killed up to two times, so that one of three is left.
std::vector<float> train_elastic(int kills) {
  const std::string epochs = test::kSanitized ? "4" : "12";
  const TemporaryDirectory place;
  const std::string mark = "TEST_OF_DIGITS=" + place.path();
  LauncherRun run({"-H", "localhost:3", "-np", "3", "--min-np", "1", "--blacklist-cooldown-range", "0.1",
                   "0.1", DIGITS, "--epochs", epochs, "--save-weights", place.path() + "/weights"},
                  {.environment = {mark}});
  for (int kill = 0; kill < kills; ++kill) {
    REQUIRE(run.wait_for_output("epoch  " + std::to_string(kill + 2) + "/" + epochs));
    // The survivor with the lowest number is rank 0.
    pid_t first = 0;
    for (int worker = 0; first == 0; ++worker) first = worker_with(mark, worker);
    send_signal(first, SIGKILL);
    REQUIRE(run.wait_for_error("was killed by SIGKILL (signal 9) at ", kill + 1));
  }
  return weights_of(run, place);
}

}  // namespace

TEST_CASE(
    "digits ends with the same weights on 1, 2 and 4 ranks, also when the batch cannot be dealt out evenly") {
  const std::string batch_size = GENERATE("64", "37");
  const std::vector<float> alone = train(1, batch_size);
  REQUIRE(alone.size() > 10000);
  for (const int ranks : {2, 4}) {
    const std::vector<float> together = train(ranks, batch_size);
    CHECK(largest_difference(alone, together) < 1e-4f);
  }
}

TEST_CASE("digits ends with the weights of an unbroken training, although rank 0 is killed twice") {
  CHECK(largest_difference(train_elastic(0), train_elastic(2)) < 1e-3f);
}

}  // namespace dabke::test

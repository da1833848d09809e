#include "examples/digits_model.h"

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace digits {
namespace {

Images some_images(std::size_t count) {
  Images images;
  for (std::size_t i = 0; i < count * kPixels; ++i) {
    images.pixels.push_back(static_cast<float>(std::sin(static_cast<double>(i * i + 1))));
  }
  for (std::size_t i = 0; i < count; ++i)
    images.labels.push_back(static_cast<std::uint8_t>(i * 3 % kClasses));
  return images;
}

void nothing(Layer&) {}

TEST_CASE("the gradients are the slopes of the loss") {
  const Images images = some_images(5);
  Model model({kPixels, 7, kClasses});
  model.initialise(3);
  model.differentiate(images, 1, nothing);
  for (Parameter* const parameter : model.parameters()) {
    const std::vector<float> gradients = parameter->gradients;
    for (std::size_t i = 0; i < parameter->values.size(); i += 1 + parameter->values.size() / 10) {
      constexpr float kStep = 1e-2f;
      const float value = parameter->values[i];
      parameter->values[i] = value + kStep;
      const double above = model.evaluate(images).loss;
      parameter->values[i] = value - kStep;
      const double below = model.evaluate(images).loss;
      parameter->values[i] = value;
      INFO(parameter->name << " " << i);
      CHECK(gradients[i] == Approx((above - below) / (2 * kStep)).margin(5e-3));
    }
  }
}

TEST_CASE("the gradients of uneven slices sum to those of the whole batch") {
  const Images images = some_images(7);
  std::vector<std::size_t> all(7);
  std::iota(all.begin(), all.end(), std::size_t{0});
  Model model({kPixels, 16, 8, kClasses});
  model.initialise(3);
  const float scale = 1.0f / 7;
  const Score whole_score = model.differentiate(images, scale, nothing);
  std::vector<std::vector<float>> whole, sums;
  for (const Parameter* const parameter : model.parameters()) {
    whole.push_back(parameter->gradients);
    sums.emplace_back(parameter->gradients.size());
  }
  const int size = GENERATE(1, 2, 4, 9);  // with 9, two slices are empty
  Score score;
  for (int rank = 0; rank < size; ++rank) {
    const Slice mine = slice_of_rank({0, 7}, rank, size);
    const Images slice = images.pick(std::span(all).subspan(mine.begin, mine.end - mine.begin));
    const Score part = model.differentiate(slice, scale, nothing);
    score.loss += part.loss;
    score.correct += part.correct;
    for (std::size_t p = 0; p < sums.size(); ++p) {
      for (std::size_t i = 0; i < sums[p].size(); ++i) sums[p][i] += model.parameters()[p]->gradients[i];
    }
  }
  CHECK(score.loss == Approx(whole_score.loss));
  CHECK(score.correct == whole_score.correct);
  double most = 0;
  for (std::size_t p = 0; p < sums.size(); ++p) {
    for (std::size_t i = 0; i < sums[p].size(); ++i) {
      most = std::max<double>(most, std::abs(sums[p][i] - whole[p][i]));
    }
  }
  CHECK(most < 1e-6);
}

TEST_CASE("each layer's gradients are announced once, the last layer first, also without images") {
  const std::size_t count = GENERATE(0u, 3u);
  Model model({kPixels, 16, 8, kClasses});
  model.initialise(3);
  std::vector<std::string> announced;
  model.differentiate(some_images(count), 1, [&](Layer& layer) {
    announced.push_back(layer.weights.name);
    layer.weights.gradients.assign(layer.weights.gradients.size(),
                                   NAN);  // a caller may overwrite the gradients from here on
  });
  CHECK(announced == std::vector<std::string>{"layer3.weights", "layer2.weights", "layer1.weights"});
  for (Layer& layer : model.layers()) {
    for (const float gradient : layer.biases.gradients) REQUIRE(std::isfinite(gradient));
  }
}

}  // namespace
}  // namespace digits

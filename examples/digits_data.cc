#include "digits_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string_view>

namespace digits {
namespace {

/// Takes a number of 0 to `most`, and the comma behind it, off the front of `line`.
int take_number(std::string_view& line, int most) {
  int number = -1;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || number < 0 || number > most)
    throw std::out_of_range("not a number in its range");
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  if (!line.empty() && line.front() == ',') line.remove_prefix(1);
  return number;
}

void standardise(Images& images, std::span<const float> mean, std::span<const float> deviation) {
  for (std::size_t i = 0; i < images.pixels.size(); ++i) {
    images.pixels[i] = (images.pixels[i] - mean[i % kPixels]) / deviation[i % kPixels];
  }
}

}  // namespace

Images Images::pick(std::span<const std::size_t> indices) const {
  Images picked;
  picked.pixels.reserve(indices.size() * kPixels);
  picked.labels.reserve(indices.size());
  for (const std::size_t index : indices) {
    const auto first = pixels.begin() + static_cast<std::ptrdiff_t>(index * kPixels);
    picked.pixels.insert(picked.pixels.end(), first, first + kPixels);
    picked.labels.push_back(labels[index]);
  }
  return picked;
}

Images load(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read the images from '" + path + "'");
  Images images;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    try {
      std::string_view rest = line;
      for (std::size_t i = 0; i < kPixels; ++i)
        images.pixels.push_back(static_cast<float>(take_number(rest, 16)));
      images.labels.push_back(static_cast<std::uint8_t>(take_number(rest, kClasses - 1)));
      if (!rest.empty() && rest != "\r") throw std::out_of_range("more than the digit");
    } catch (const std::out_of_range&) {
      throw std::runtime_error("'" + path + "', line " + std::to_string(number) +
                               ": want 64 pixels of 0 to 16 and a digit, separated by commas");
    }
  }
  // A directory opens like a file but has no lines.
  if (images.size() < 10) throw std::runtime_error("'" + path + "' holds fewer than 10 images");
  return images;
}

Split split_and_standardise(const Images& all) {
  constexpr std::uint64_t kSplitSeed = 1998;  // fixed, so that accuracies of different seeds stay comparable
  const std::vector<std::size_t> order = permutation(all.size(), kSplitSeed);
  const std::size_t training_size = all.size() - all.size() / 5;
  Split split{all.pick(std::span(order).first(training_size)),
              all.pick(std::span(order).subspan(training_size))};

  std::vector<float> mean(kPixels), deviation(kPixels);
  for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
    double sum = 0, squares = 0;
    for (std::size_t i = pixel; i < split.training.pixels.size(); i += kPixels) {
      const double value = split.training.pixels[i];
      sum += value;
      squares += value * value;
    }
    const double count = static_cast<double>(training_size);
    mean[pixel] = static_cast<float>(sum / count);
    const double variance = squares / count - sum / count * (sum / count);
    // Pixels near the edge are almost always 0. Division by a tiny deviation would turn them into noise.
    deviation[pixel] = static_cast<float>(std::max(1.0, std::sqrt(std::max(0.0, variance))));
  }
  standardise(split.training, mean, deviation);
  standardise(split.held_out, mean, deviation);
  return split;
}

Slice slice_of_rank(Slice whole, int rank, int size) {
  const auto cut = [&](int part) {
    return whole.begin +
           (whole.end - whole.begin) * static_cast<std::size_t>(part) / static_cast<std::size_t>(size);
  };
  return {cut(rank), cut(rank + 1)};
}

std::vector<std::size_t> permutation(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

}  // namespace digits

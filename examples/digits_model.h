// A small neural network: dense layers with ReLU between them, softmax and
// cross-entropy at the end. It knows nothing of other ranks; the training program
// learns through a callback when a layer's gradients are ready to travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "digits_data.h"

namespace digits {

/// What a rank learns, and how fast it moves while it does.
struct Parameter {
  std::string name;
  std::vector<float> values;
  std::vector<float> gradients;
  std::vector<float> velocities;
};

struct Layer {
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  Parameter weights;  // [inputs, outputs]
  Parameter biases;   // [outputs]
};

/// Sums over images.
struct Score {
  double loss = 0;
  std::size_t correct = 0;
};

class Model {
 public:
  /// Layers between these widths, from the input's to the output's. All zero: see initialise().
  explicit Model(std::initializer_list<std::size_t> widths);
  /// Random weights (He et al. 2015, "Delving deep into rectifiers").
  void initialise(std::uint64_t seed);

  std::span<Layer> layers() { return layers_; }
  std::vector<Parameter*> parameters();

  Score evaluate(const Images& images);

  /// Sets every layer's gradients to the sum over `images` of the loss's
  /// gradients, times `scale`. Calls `gradients_ready` for each layer as soon
  /// as its own are there, the last layer first; also when there are no images.
  Score differentiate(const Images& images, float scale, const std::function<void(Layer&)>& gradients_ready);

  /// Stochastic gradient descent with momentum.
  void step(float learning_rate, float momentum);

 private:
  void forward(const Images& images);
  /// Softmax in place of the last layer's outputs.
  Score score(const Images& images);

  std::vector<Layer> layers_;
  std::vector<std::vector<float>> activations_;  // what goes into each layer, and what comes out of the last
};

}  // namespace digits

// A small neural network: dense layers with ReLU between them, softmax and cross-entropy at the end. The
// model is independent of other ranks. A callback notifies the training program when a layer's gradients are
// ready to travel.
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

/// The values that a rank learns, with their gradients and the velocities of the momentum.
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

/// The loss and the number of correct images, summed over images.
struct Score {
  double loss = 0;
  std::size_t correct = 0;
};

class Model {
 public:
  /// Layers between these widths, from the input's to the output's. All weights are zero until initialise().
  explicit Model(std::initializer_list<std::size_t> widths);
  /// Sets random weights (He et al. 2015, "Delving deep into rectifiers").
  void initialise(std::uint64_t seed);

  std::span<Layer> layers() { return layers_; }
  std::vector<Parameter*> parameters();

  Score evaluate(const Images& images);

  /// Sets every layer's gradients to the sum of the loss's gradients over `images`, times `scale`. Calls
  /// `gradients_ready` for each layer as soon as its gradients are ready, the last layer first. It does so
  /// without images, too.
  Score differentiate(const Images& images, float scale, const std::function<void(Layer&)>& gradients_ready);

  /// Stochastic gradient descent with momentum.
  void step(float learning_rate, float momentum);

 private:
  void forward(const Images& images);
  /// Replaces the last layer's outputs by their softmax, and returns the score.
  Score score(const Images& images);

  std::vector<Layer> layers_;
  std::vector<std::vector<float>> activations_;  // the inputs of each layer, then the outputs of the last
};

}  // namespace digits

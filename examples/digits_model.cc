#include "digits_model.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace digits {
namespace {

Parameter make_parameter(std::string name, std::size_t size) {
  return {std::move(name), std::vector<float>(size), std::vector<float>(size), std::vector<float>(size)};
}

/// out [images, outputs] = in [images, inputs] x weights + biases
void multiply(const Layer& layer, std::span<const float> in, std::span<float> out) {
  for (std::size_t image = 0; image * layer.outputs < out.size(); ++image) {
    float* const row = &out[image * layer.outputs];
    std::copy(layer.biases.values.begin(), layer.biases.values.end(), row);
    for (std::size_t i = 0; i < layer.inputs; ++i) {
      const float value = in[image * layer.inputs + i];
      const float* const weights = &layer.weights.values[i * layer.outputs];
      for (std::size_t o = 0; o < layer.outputs; ++o) row[o] += value * weights[o];
    }
  }
}

/// Sums the layer's gradients over the images, from the layer's inputs and the errors of its outputs.
void sum_gradients(Layer& layer, std::span<const float> in, std::span<const float> errors) {
  std::ranges::fill(layer.weights.gradients, 0.0f);
  std::ranges::fill(layer.biases.gradients, 0.0f);
  for (std::size_t image = 0; image * layer.outputs < errors.size(); ++image) {
    const float* const error = &errors[image * layer.outputs];
    for (std::size_t o = 0; o < layer.outputs; ++o) layer.biases.gradients[o] += error[o];
    for (std::size_t i = 0; i < layer.inputs; ++i) {
      const float value = in[image * layer.inputs + i];
      float* const gradients = &layer.weights.gradients[i * layer.outputs];
      for (std::size_t o = 0; o < layer.outputs; ++o) gradients[o] += value * error[o];
    }
  }
}

/// The errors of the layer's inputs: errors x weights, transposed; 0 for inputs that ReLU has set to 0.
std::vector<float> errors_of_inputs(const Layer& layer, std::span<const float> in,
                                    std::span<const float> errors) {
  std::vector<float> out(in.size());
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (in[k] <= 0) continue;
    const float* const error = &errors[k / layer.inputs * layer.outputs];
    const float* const weights = &layer.weights.values[k % layer.inputs * layer.outputs];
    float sum = 0;
    for (std::size_t o = 0; o < layer.outputs; ++o) sum += error[o] * weights[o];
    out[k] = sum;
  }
  return out;
}

}  // namespace

Model::Model(std::initializer_list<std::size_t> widths) {
  const std::size_t* const width = widths.begin();
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    const std::string name = "layer" + std::to_string(i + 1);
    layers_.push_back({width[i], width[i + 1], make_parameter(name + ".weights", width[i] * width[i + 1]),
                       make_parameter(name + ".biases", width[i + 1])});
  }
  activations_.resize(layers_.size() + 1);
}

void Model::initialise(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (Layer& layer : layers_) {
    std::normal_distribution<float> normal(0, std::sqrt(2.0f / static_cast<float>(layer.inputs)));
    for (float& weight : layer.weights.values) weight = normal(random);
  }
}

std::vector<Parameter*> Model::parameters() {
  std::vector<Parameter*> all;
  for (Layer& layer : layers_) all.insert(all.end(), {&layer.weights, &layer.biases});
  return all;
}

Score Model::evaluate(const Images& images) {
  forward(images);
  return score(images);
}

Score Model::differentiate(const Images& images, float scale,
                           const std::function<void(Layer&)>& gradients_ready) {
  forward(images);
  const Score result = score(images);
  // The gradient of cross-entropy after softmax is the probabilities, minus 1 for the right class.
  std::vector<float> errors = activations_.back();
  for (std::size_t image = 0; image < images.size(); ++image)
    errors[image * kClasses + images.labels[image]] -= 1;
  for (float& error : errors) error *= scale;

  for (std::size_t i = layers_.size(); i-- > 0;) {
    Layer& layer = layers_[i];
    sum_gradients(layer, activations_[i], errors);
    // Another thread may change the gradients from here on; the rest needs only the errors and the weights.
    gradients_ready(layer);
    if (i > 0) errors = errors_of_inputs(layer, activations_[i], errors);
  }
  return result;
}

void Model::step(float learning_rate, float momentum) {
  for (Parameter* const parameter : parameters()) {
    for (std::size_t i = 0; i < parameter->values.size(); ++i) {
      float& velocity = parameter->velocities[i];
      velocity = momentum * velocity - learning_rate * parameter->gradients[i];
      parameter->values[i] += velocity;
    }
  }
}

void Model::forward(const Images& images) {
  activations_[0] = images.pixels;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    activations_[i + 1].resize(images.size() * layers_[i].outputs);
    multiply(layers_[i], activations_[i], activations_[i + 1]);
    if (i + 1 == layers_.size()) break;
    for (float& value : activations_[i + 1]) value = std::max(value, 0.0f);
  }
}

Score Model::score(const Images& images) {
  Score result;
  for (std::size_t image = 0; image < images.size(); ++image) {
    const std::span<float> outputs = std::span(activations_.back()).subspan(image * kClasses, kClasses);
    const auto most = std::ranges::max_element(outputs);
    const std::size_t label = images.labels[image];
    result.correct += static_cast<std::size_t>(most - outputs.begin()) == label;
    const float highest = *most;  // subtracted, so that exp() cannot overflow
    double sum = 0;
    for (const float output : outputs) sum += std::exp(output - highest);
    result.loss += std::log(sum) - (outputs[label] - highest);
    for (float& output : outputs) output = static_cast<float>(std::exp(output - highest) / sum);
  }
  return result;
}

}  // namespace digits

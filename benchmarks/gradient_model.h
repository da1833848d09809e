// A model's gradients, as a backward pass makes them (benchmarks/models/*.txt).
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace dabke::perf {

struct Gradient {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t elements = 1;
};

/// Lines of a name and a shape; # begins a comment. Empty when the file cannot be read.
inline std::vector<Gradient> read_model(const std::string& path) {
  std::vector<Gradient> model;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Gradient gradient;
    if (!(words >> gradient.name) || gradient.name.starts_with("#")) continue;
    for (std::int64_t dim = 0; words >> dim;) {
      gradient.shape.push_back(dim);
      gradient.elements *= static_cast<std::size_t>(dim);
    }
    model.push_back(std::move(gradient));
  }
  return model;
}

}  // namespace dabke::perf

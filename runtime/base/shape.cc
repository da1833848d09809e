#include "runtime/base/shape.h"

#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dabke {

std::int64_t Shape::row_elements() const {
  if (rank_ == 0) return 1;
  return std::accumulate(dims().begin() + 1, dims().end(), std::int64_t{1}, std::multiplies<>());
}

std::string Shape::to_string() const { return fmt::format("[{}]", fmt::join(dims(), ", ")); }

}  // namespace dabke

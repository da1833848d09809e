#include "runtime/base/shape.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dabke {

Shape::Shape(std::span<const std::int64_t> dims) : rank_(dims.size()) {
  if (is_long()) many_ = new std::int64_t[rank_];
  std::copy(dims.begin(), dims.end(), data());
}

void Shape::swap(Shape& other) noexcept {
  std::swap(rank_, other.rank_);
  std::swap(few_, other.few_);  // all bytes, whichever they are
}

std::int64_t Shape::elements() const {
  return std::accumulate(dims().begin(), dims().end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t Shape::row_elements() const {
  if (rank_ == 0) return 1;
  return std::accumulate(dims().begin() + 1, dims().end(), std::int64_t{1}, std::multiplies<>());
}

std::string Shape::to_string() const { return fmt::format("[{}]", fmt::join(dims(), ", ")); }

bool operator==(const Shape& a, const Shape& b) { return std::ranges::equal(a.dims(), b.dims()); }

}  // namespace dabke

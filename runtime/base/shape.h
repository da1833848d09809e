#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace dabke {

/// The dimensions of a tensor, outermost first. Up to kInline dimensions need no allocation.
class Shape {
 public:
  static constexpr std::size_t kInline = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims);

  std::size_t rank() const { return rank_; }
  std::int64_t operator[](std::size_t i) const { return dims()[i]; }
  void set(std::size_t i, std::int64_t value) { data()[i] = value; }
  std::span<const std::int64_t> dims() const { return {heap_.empty() ? inline_ : heap_.data(), rank_}; }

  /// Product of all dimensions; 1 for a scalar.
  std::int64_t elements() const;
  /// Product of all but the first dimension: the elements of one row.
  std::int64_t row_elements() const;
  /// "[2, 3]"
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::int64_t* data() { return heap_.empty() ? inline_ : heap_.data(); }

  std::size_t rank_ = 0;
  std::int64_t inline_[kInline] = {};
  std::vector<std::int64_t> heap_;
};

}  // namespace dabke

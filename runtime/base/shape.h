#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

namespace dabke {

/// The dimensions of a tensor, outermost first. Up to kInline dimensions need no allocation.
class Shape {
 public:
  static constexpr std::size_t kInline = 5;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims) : rank_(dims.size()) {
    if (is_long()) many_ = new std::int64_t[rank_];
    std::ranges::copy(dims, data());
  }

  Shape(const Shape& other) : Shape(other.dims()) {}
  Shape(Shape&& other) noexcept : Shape() { swap(other); }
  Shape& operator=(Shape other) noexcept {
    swap(other);
    return *this;
  }
  ~Shape() {
    if (is_long()) delete[] many_;
  }

  std::size_t rank() const { return rank_; }
  std::int64_t operator[](std::size_t i) const { return dims()[i]; }
  void set(std::size_t i, std::int64_t value) { data()[i] = value; }
  std::span<const std::int64_t> dims() const { return {is_long() ? many_ : few_, rank_}; }

  /// Product of all dimensions; 1 for a scalar.
  std::int64_t elements() const {
    std::int64_t product = 1;
    for (const std::int64_t dim : dims()) product *= dim;
    return product;
  }
  /// Product of all but the first dimension: the elements of one row.
  std::int64_t row_elements() const;
  /// "[2, 3]"
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b) { return std::ranges::equal(a.dims(), b.dims()); }

 private:
  bool is_long() const { return rank_ > kInline; }
  std::int64_t* data() { return is_long() ? many_ : few_; }
  void swap(Shape& other) noexcept {
    std::swap(rank_, other.rank_);
    std::swap(few_, other.few_);  // all bytes, whichever member is active
  }

  std::size_t rank_ = 0;
  union {
    std::int64_t few_[kInline] = {};
    std::int64_t* many_;  // if is_long()
  };
};

}  // namespace dabke

// What a thread hands to the writer: 56 bytes, and no memory of its own but in rare cases.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "runtime/base/shape.h"
#include "runtime/base/status.h"

namespace dabke {

struct Record {
  enum class What : std::uint8_t {
    negotiate_start,  // detail: CollectiveKind
    rank_ready,       // number: rank within the set
    negotiate_end,
    op_start,        // detail: CollectiveKind; more
    activity_start,  // more
    activity_end,    // more
    op_end,          // detail: DType; dims, or spill
    op_error,        // spill
    cycle,
  };
  /// What all tensors of a batch do at the same time takes one record for up to seven of them.
  struct More {
    const char* text;
    std::array<std::uint32_t, 6> tensors;
  };
  /// What does not fit: shapes of many or huge dimensions, and errors.
  struct Spill {
    Shape shape;
    Status status;
  };

  std::int64_t time_ns = 0;  // since the timeline's start, taken on the recording thread
  std::uint32_t tensor = 0;
  What what = What::cycle;
  std::uint8_t detail = 0;
  std::uint8_t count = 0;  // of dims, or of tensors in `more`
  union {
    std::array<std::uint32_t, 8> dims = {};
    std::int32_t number;
    More more;
  };
  std::unique_ptr<const Spill> spill;

  /// Beyond `tensor`.
  std::span<const std::uint32_t> more_tensors() const {
    const bool has_more =
        what == What::op_start || what == What::activity_start || what == What::activity_end;
    return {more.tensors.data(), has_more ? count : std::size_t{0}};
  }
  std::uint32_t largest_tensor() const {
    std::uint32_t largest = tensor;
    for (const std::uint32_t one : more_tensors()) largest = std::max(largest, one);
    return largest;
  }

  void set_shape(const Shape& shape) {
    const auto fits = [](std::int64_t dim) {
      return dim >= 0 && dim <= std::numeric_limits<std::uint32_t>::max();
    };
    bool all_fit = shape.rank() <= dims.size();
    for (const std::int64_t dim : shape.dims()) all_fit = all_fit && fits(dim);
    if (!all_fit) {
      spill = std::make_unique<const Spill>(Spill{shape, {}});
      return;
    }
    count = static_cast<std::uint8_t>(shape.rank());
    for (std::size_t i = 0; i < shape.rank(); ++i) dims[i] = static_cast<std::uint32_t>(shape[i]);
  }

  Shape shape() const {
    if (spill) return spill->shape;
    std::array<std::int64_t, 8> wide = {};
    for (std::size_t i = 0; i < count; ++i) wide[i] = dims[i];
    return Shape(std::span<const std::int64_t>(wide.data(), count));
  }
};

}  // namespace dabke

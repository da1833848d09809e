// What a thread hands to the writer: 56 bytes, and no memory of its own but in rare cases.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>

#include "runtime/base/shape.h"
#include "runtime/base/status.h"

namespace dabke {

struct Record {
  enum class What : std::uint8_t {
    negotiate_start,  // detail: CollectiveKind
    rank_ready,       // number: rank within the set
    negotiate_end,
    op_start,        // detail: CollectiveKind
    activity_start,  // text
    activity_end,
    op_end,    // detail: DType; dims, or spill
    op_error,  // spill
    cycle,
  };
  /// For what does not fit: shapes of many or huge dimensions, and errors.
  struct Spill {
    Shape shape;
    Status status;
  };

  std::int64_t time_ns = 0;  // since the timeline's start, taken on the recording thread
  std::uint32_t tensor = 0;
  What what = What::cycle;
  std::uint8_t detail = 0;
  std::uint8_t dim_count = 0;
  union {
    std::array<std::uint32_t, 8> dims = {};
    std::int32_t number;
    const char* text;
  };
  std::unique_ptr<const Spill> spill;

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
    dim_count = static_cast<std::uint8_t>(shape.rank());
    for (std::size_t i = 0; i < shape.rank(); ++i) dims[i] = static_cast<std::uint32_t>(shape[i]);
  }

  Shape shape() const {
    if (spill) return spill->shape;
    std::array<std::int64_t, 8> wide = {};
    for (std::size_t i = 0; i < dim_count; ++i) wide[i] = dims[i];
    return Shape(std::span<const std::int64_t>(wide.data(), dim_count));
  }
};

}  // namespace dabke

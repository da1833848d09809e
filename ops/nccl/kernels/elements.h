// The arguments of the kernels on a GPU, and the list of the kernels. The library, the kernels and the double
// of the tests share this header.
//
// Integers are scaled by the same code as in the host's kernels (integer_scale.h), so the results are equal.
// Floats follow the rules of kernels.h, so their results are equal too: the share of an average and the
// factor after it are rounded separately.
#pragma once

#include <cstdint>

#include "runtime/base/dtype.h"
#include "runtime/kernels/integer_scale.h"
#include "runtime/kernels/kernels.h"

namespace dabke::ops::gpu {

// A launch copies all of its arguments. So a few pieces use the small form of a kernel, and more pieces the
// large form. A kernel takes at most 4 KB by value, and 32,764 bytes from CUDA 12.1 on. Meson sets the number
// of pieces for which the compiler, and all drivers that accept its code, have room.
inline constexpr unsigned kFewPieces = 128;
inline constexpr unsigned kManyPieces = DABKE_MANY_PIECES;
inline constexpr unsigned kThreads = 256;
inline constexpr std::uint64_t kElementsOfBlock = 4096;
inline constexpr std::uint64_t kBytesOfBlock = 32768;

struct Piece {
  void* to;
  const void* from;
  std::uint64_t elements;
};

struct ElementScale {
  explicit ElementScale(const kernels::Scale& by)
      : share(by.share()),
        factor(by.factor),
        share_is_narrow(static_cast<double>(static_cast<float>(share)) == share),
        averages(by.divisor != 1),
        multiplies(by.factor != 1),
        is_one(by.is_one()),
        clears(by.factor == 0),
        integers(by) {}

  double share;          // for an average of floats
  double factor;         // for floats, applied after the share
  bool share_is_narrow;  // float32 holds the share
  bool averages;
  bool multiplies;
  bool is_one;
  bool clears;  // sets booleans to false
  kernels::IntegerScale integers;
};

/// Pieces that one launch copies. The blocks from first_block[i] to first_block[i + 1] copy piece i.
template <unsigned most>
struct CopyArguments {
  Piece pieces[most];
  std::uint32_t first_block[most + 1];
  std::uint32_t count;
  ElementScale scale;
};
using FewCopies = CopyArguments<kFewPieces>;
using ManyCopies = CopyArguments<kManyPieces>;
static_assert(sizeof(FewCopies) <= 4096);
static_assert(sizeof(ManyCopies) <= (kManyPieces > kFewPieces ? 32764 : 4096));

struct FillArguments {
  void* into;
  std::uint64_t elements;
  std::uint64_t value;  // in its first bytes
  std::uint32_t width;  // bytes of an element
};

// clang-format off
// Each of these has a kernel dabke_scale_<id>, which stays within one dtype.
#define DABKE_GPU_SCALES(X) \
  X(b8) X(i8) X(i16) X(i32) X(i64) X(u8) X(u16) X(u32) X(u64) X(f16) X(bf16) X(f32) X(f64)
// Each of these has the kernels dabke_widen_<id> and dabke_narrow_<id>, to and from its wide dtype. There are
// also dabke_copy, which copies bytes, and dabke_fill. All but the last have a large form, whose name ends in
// _many.
#define DABKE_GPU_WIDTHS(X) \
  X(i8, i32) X(u8, i32) X(i16, i64) X(u16, i64) X(i32, i64) X(u32, i64) X(f16, f32) X(bf16, f32)
// clang-format on
#define X(id, wide) static_assert(kernels::wide_dtype(DType::id) == DType::wide);
DABKE_GPU_WIDTHS(X)
#undef X

}  // namespace dabke::ops::gpu

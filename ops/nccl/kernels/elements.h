// What the kernels on a GPU are given, and which there are. The library, the kernels and the double of the tests
// have this header in common.
//
// Integers are scaled by the lines that the host's kernels have (integer_scale.h), so they come out alike. So are
// floats, by the rules of kernels.h: the share of an average and the factor after it round each.
#pragma once

#include <cstdint>

#include "runtime/base/dtype.h"
#include "runtime/kernels/integer_scale.h"
#include "runtime/kernels/kernels.h"

namespace dabke::ops::gpu {

// A launch copies its arguments whole, so few pieces go with the small form of a kernel and more with the large one. What it takes
// by value is at most 4 KB, and 32,764 bytes from CUDA 12.1 on: Meson says for how many pieces the compiler and all drivers that
// take its code have room.
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

  double share;          // of an average of floats
  double factor;         // of floats, after it
  bool share_is_narrow;  // float32 holds the share
  bool averages;
  bool multiplies;
  bool is_one;
  bool clears;  // what becomes of booleans
  kernels::IntegerScale integers;
};

/// Pieces that one launch copies. Piece i is done by the blocks from first_block[i] to first_block[i + 1].
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
// A kernel for each is dabke_scale_<id>, within one dtype, ...
#define DABKE_GPU_SCALES(X) \
  X(b8) X(i8) X(i16) X(i32) X(i64) X(u8) X(u16) X(u32) X(u64) X(f16) X(bf16) X(f32) X(f64)
// ... and dabke_widen_<id> and dabke_narrow_<id>, to and from its wide dtype. Besides: dabke_copy, of bytes, and
// dabke_fill. All but the last have a large form, whose name ends in _many.
#define DABKE_GPU_WIDTHS(X) \
  X(i8, i32) X(u8, i32) X(i16, i64) X(u16, i64) X(i32, i64) X(u32, i64) X(f16, f32) X(bf16, f32)
// clang-format on
#define X(id, wide) static_assert(kernels::wide_dtype(DType::id) == DType::wide);
DABKE_GPU_WIDTHS(X)
#undef X

}  // namespace dabke::ops::gpu

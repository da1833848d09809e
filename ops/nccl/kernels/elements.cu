// The kernels of elements.h. Each thread takes every kThreads-th element of its block. Threads share nothing,
// so the double of the tests runs them one after the other, compiled by the host's compiler.
#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include "ops/nccl/kernels/elements.h"

namespace dabke::ops::gpu {
namespace {

template <DType dtype>
struct TypeOf;
#define X(id, name, type, ...) \
  template <>                  \
  struct TypeOf<DType::id> {   \
    using Type = type;         \
  };
DABKE_DTYPES(X)
#undef X

struct Part {
  const Piece* piece;
  std::uint64_t begin;
  std::uint64_t end;
};

/// Returns the part of the pieces that this block handles. `size` is the number of elements of a block.
template <unsigned most>
__device__ inline Part part_of(const CopyArguments<most>& all, std::uint64_t size) {
  std::uint32_t low = 0;
  std::uint32_t high = all.count;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (all.first_block[middle] <= blockIdx.x ? low : high) = middle;
  }
  const Piece& piece = all.pieces[low];
  const std::uint64_t units = piece.elements;
  const std::uint64_t begin = (blockIdx.x - all.first_block[low]) * size;
  return {&piece, begin, begin + size < units ? begin + size : units};
}

/// Copies in units of `Unit`, the largest that both addresses allow: 16 bytes if both have the same distance
/// from a multiple of 16. Returns the bytes copied.
template <class Unit>
__device__ inline std::uint64_t copy_by(const unsigned char* from, unsigned char* to, std::uint64_t bytes) {
  const std::uint64_t units = bytes / sizeof(Unit);
  for (std::uint64_t i = threadIdx.x; i < units; i += kThreads)
    reinterpret_cast<Unit*>(to)[i] = reinterpret_cast<const Unit*>(from)[i];
  return units * sizeof(Unit);
}

template <class T>
__device__ inline T load(const void* from, std::uint64_t index) {
  const auto* const at = static_cast<const unsigned char*>(from) + index * sizeof(T);
  if (reinterpret_cast<std::uintptr_t>(from) % alignof(T) == 0) return *reinterpret_cast<const T*>(at);
  T value;
  for (unsigned i = 0; i < sizeof(T); ++i) reinterpret_cast<unsigned char*>(&value)[i] = at[i];
  return value;
}

template <class T>
__device__ inline void store(void* to, std::uint64_t index, T value) {
  auto* const at = static_cast<unsigned char*>(to) + index * sizeof(T);
  if (reinterpret_cast<std::uintptr_t>(to) % alignof(T) == 0) {
    *reinterpret_cast<T*>(at) = value;
    return;
  }
  for (unsigned i = 0; i < sizeof(T); ++i) at[i] = reinterpret_cast<const unsigned char*>(&value)[i];
}

template <class T>
inline constexpr bool is_half = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

// Rounds to nearest even, as half.h does, with the GPU's own instructions. A NaN stays a NaN, perhaps with
// other bits.
#ifdef __CUDACC__
__device__ inline float to_float(f16 value) { return __half2float(__ushort_as_half(value.bits)); }
__device__ inline float to_float(bf16 value) { return __bfloat162float(__ushort_as_bfloat16(value.bits)); }
__device__ inline void round_to(float value, f16& into) {
  into.bits = __half_as_ushort(__float2half_rn(value));
}
__device__ inline void round_to(float value, bf16& into) {
  into.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
#else
inline float to_float(f16 value) { return static_cast<float>(value); }
inline float to_float(bf16 value) { return static_cast<float>(value); }
inline void round_to(float value, f16& into) { into = f16(value); }
inline void round_to(float value, bf16& into) { into = bf16(value); }
#endif
__device__ inline float to_float(float value) { return value; }
__device__ inline void round_to(float value, float& into) { into = value; }

__device__ inline float average(float sum, const ElementScale& scale) {
  if (scale.share_is_narrow) return sum * static_cast<float>(scale.share);
  return static_cast<float>(static_cast<double>(sum) * scale.share);
}

/// Returns the element that stores a number computed in float32.
template <class Stored>
__device__ inline Stored scaled_float(float number, const ElementScale& scale) {
  Stored stored;
  round_to(scale.averages ? average(number, scale) : number, stored);
  if (scale.multiplies) round_to(to_float(stored) * static_cast<float>(scale.factor), stored);
  return stored;
}

template <class To, class From>
__device__ inline To scaled(From value, const ElementScale& scale) {
  if constexpr (std::is_same_v<From, bool>) {
    return scale.clears ? false : value;
  } else if constexpr (std::is_same_v<From, double>) {
    const double number = scale.averages ? value * scale.share : value;
    return scale.multiplies ? number * scale.factor : number;
  } else if constexpr (is_half<From> || std::is_same_v<From, float>) {
    if constexpr (sizeof(To) > sizeof(From)) {
      return to_float(scaled_float<From>(to_float(value), scale));  // as the host's kernels widen
    } else {
      return scaled_float<To>(to_float(value), scale);
    }
  } else if constexpr (sizeof(To) > sizeof(From)) {
    return static_cast<To>(scale.is_one ? value : scale.integers.template apply<From>(value));
  } else if constexpr (sizeof(To) < sizeof(From)) {
    return scale.integers.template apply<To>(value);  // stays within its range, even if the scale is one
  } else {
    return scale.is_one ? value : scale.integers.template apply<To>(value);
  }
}

// A vector of elements. The wider of two types fills 16 bytes.
template <class T, unsigned count>
struct alignas(sizeof(T) * count) Vector {
  T at[count];
};

/// Copies the leading elements that fit accesses of 16 bytes. Returns their number.
template <class To, class From>
__device__ inline std::uint64_t copy_vectors(const From* from, To* to, std::uint64_t elements,
                                             const ElementScale& scale) {
  constexpr unsigned kCount = 16 / (sizeof(To) > sizeof(From) ? sizeof(To) : sizeof(From));
  using Froms = Vector<From, kCount>;
  using Tos = Vector<To, kCount>;
  if (reinterpret_cast<std::uintptr_t>(from) % alignof(Froms) != 0) return 0;
  if (reinterpret_cast<std::uintptr_t>(to) % alignof(Tos) != 0) return 0;
  const std::uint64_t vectors = elements / kCount;
  for (std::uint64_t i = threadIdx.x; i < vectors; i += kThreads) {
    const Froms in = reinterpret_cast<const Froms*>(from)[i];
    Tos out;
    for (unsigned j = 0; j < kCount; ++j) out.at[j] = scaled<To, From>(in.at[j], scale);
    reinterpret_cast<Tos*>(to)[i] = out;
  }
  return vectors * kCount;
}

template <class To, class From, unsigned most>
__device__ inline void copy_elements(const CopyArguments<most>& all) {
  const Part part = part_of(all, kElementsOfBlock);
  const void* const from = part.piece->from;
  void* const to = part.piece->to;
  if constexpr (std::is_same_v<From, bool>) {
    // Copies booleans as bytes: a byte that represents a boolean may have any value.
    for (std::uint64_t i = part.begin + threadIdx.x; i < part.end; i += kThreads)
      store<unsigned char>(to, i, all.scale.clears ? 0 : load<unsigned char>(from, i));
  } else {
    const std::uint64_t done =
        copy_vectors(static_cast<const From*>(from) + part.begin, static_cast<To*>(to) + part.begin,
                     part.end - part.begin, all.scale);
    for (std::uint64_t i = part.begin + done + threadIdx.x; i < part.end; i += kThreads)
      store<To>(to, i, scaled<To, From>(load<From>(from, i), all.scale));
  }
}

/// Copies pieces whose elements are bytes.
template <unsigned most>
__device__ inline void copy_bytes(const CopyArguments<most>& all) {
  const Part part = part_of(all, kBytesOfBlock);
  const auto* from = static_cast<const unsigned char*>(part.piece->from) + part.begin;
  auto* to = static_cast<unsigned char*>(part.piece->to) + part.begin;
  std::uint64_t bytes = part.end - part.begin;
  const auto apart = reinterpret_cast<std::uintptr_t>(from) ^ reinterpret_cast<std::uintptr_t>(to);
  if (apart % 16 == 0) {
    const std::uint64_t before = (16 - reinterpret_cast<std::uintptr_t>(from) % 16) % 16;
    const std::uint64_t head = copy_by<unsigned char>(from, to, before < bytes ? before : bytes);
    from += head;
    to += head;
    bytes -= head;
    const std::uint64_t done = copy_by<uint4>(from, to, bytes);
    copy_by<unsigned char>(from + done, to + done, bytes - done);
  } else if ((apart | reinterpret_cast<std::uintptr_t>(from)) % 4 == 0) {
    const std::uint64_t done = copy_by<unsigned>(from, to, bytes);
    copy_by<unsigned char>(from + done, to + done, bytes - done);
  } else {
    copy_by<unsigned char>(from, to, bytes);
  }
}

}  // namespace
}  // namespace dabke::ops::gpu

using dabke::DType;
using dabke::ops::gpu::FewCopies;
using dabke::ops::gpu::FillArguments;
using dabke::ops::gpu::ManyCopies;

// A kernel's argument. Where the host's compiler runs, each thread is a call, which must not copy the
// argument.
#ifndef DABKE_ARGUMENT
#define DABKE_ARGUMENT(T) const __grid_constant__ T
#endif

extern "C" __global__ void dabke_fill(DABKE_ARGUMENT(FillArguments) what) {
  using namespace dabke::ops::gpu;
  const std::uint64_t begin = blockIdx.x * kElementsOfBlock;
  const std::uint64_t end =
      begin + kElementsOfBlock < what.elements ? begin + kElementsOfBlock : what.elements;
  for (std::uint64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    switch (what.width) {
      case 1: store(what.into, i, static_cast<unsigned char>(what.value)); break;
      case 2: store(what.into, i, static_cast<std::uint16_t>(what.value)); break;
      case 4: store(what.into, i, static_cast<std::uint32_t>(what.value)); break;
      default: store(what.into, i, what.value);
    }
  }
}

// Defines both forms of a kernel.
#define DABKE_COPIES(name, body)                                           \
  extern "C" __global__ void name(DABKE_ARGUMENT(FewCopies) all) { body; } \
  extern "C" __global__ void name##_many(DABKE_ARGUMENT(ManyCopies) all) { body; }

DABKE_COPIES(dabke_copy, dabke::ops::gpu::copy_bytes(all))
#define T(id) dabke::ops::gpu::TypeOf<DType::id>::Type
#define X(id) DABKE_COPIES(dabke_scale_##id, (dabke::ops::gpu::copy_elements<T(id), T(id)>(all)))
DABKE_GPU_SCALES(X)
#undef X
#define X(id, wide)                                                                     \
  DABKE_COPIES(dabke_widen_##id, (dabke::ops::gpu::copy_elements<T(wide), T(id)>(all))) \
  DABKE_COPIES(dabke_narrow_##id, (dabke::ops::gpu::copy_elements<T(id), T(wide)>(all)))
DABKE_GPU_WIDTHS(X)
#undef X
#undef T
#undef DABKE_COPIES

// The element types of tensors: one row each. All facts about a dtype are in its row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "runtime/base/half.h"
#include "runtime/base/status.h"

namespace dabke {

// clang-format off
// The last three columns are plain tokens. Only files that need them expand them, and include their headers.
//   id    name       C++ type       MPI           NCCL           DLPack
#define DABKE_DTYPES(X)                                                        \
  X(b8,   "bool",     bool,          MPI_C_BOOL,   std::nullopt,  kDLBool)     \
  X(i8,   "int8",     std::int8_t,   MPI_INT8_T,   ncclInt8,      kDLInt)      \
  X(i16,  "int16",    std::int16_t,  MPI_INT16_T,  std::nullopt,  kDLInt)      \
  X(i32,  "int32",    std::int32_t,  MPI_INT32_T,  ncclInt32,     kDLInt)      \
  X(i64,  "int64",    std::int64_t,  MPI_INT64_T,  ncclInt64,     kDLInt)      \
  X(u8,   "uint8",    std::uint8_t,  MPI_UINT8_T,  ncclUint8,     kDLUInt)     \
  X(u16,  "uint16",   std::uint16_t, MPI_UINT16_T, std::nullopt,  kDLUInt)     \
  X(u32,  "uint32",   std::uint32_t, MPI_UINT32_T, ncclUint32,    kDLUInt)     \
  X(u64,  "uint64",   std::uint64_t, MPI_UINT64_T, ncclUint64,    kDLUInt)     \
  X(f16,  "float16",  f16,           mpi_f16(),    ncclFloat16,   kDLFloat)    \
  X(bf16, "bfloat16", bf16,          mpi_bf16(),   ncclBfloat16,  kDLBfloat)   \
  X(f32,  "float32",  float,         MPI_FLOAT,    ncclFloat32,   kDLFloat)    \
  X(f64,  "float64",  double,        MPI_DOUBLE,   ncclFloat64,   kDLFloat)
// clang-format on

enum class DType : std::uint8_t {
#define X(id, ...) id,
  DABKE_DTYPES(X)
#undef X
};

inline constexpr auto kDTypes = std::to_array<DType>({
#define X(id, ...) DType::id,
    DABKE_DTYPES(X)
#undef X
});

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
#define X(id, name, ...) \
  case DType::id: return name;
    DABKE_DTYPES(X)
#undef X
  }
  return "unknown";
}

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
#define X(id, name, type, ...) \
  case DType::id: return sizeof(type);
    DABKE_DTYPES(X)
#undef X
  }
  return 0;
}

/// The alignment of an element's address, in bytes.
constexpr std::size_t alignment_of(DType dtype) {
  switch (dtype) {
#define X(id, name, type, ...) \
  case DType::id: return alignof(type);
    DABKE_DTYPES(X)
#undef X
  }
  return 1;
}

/// Calls `visitor(std::type_identity<T>{})` with the C++ type of `dtype`.
template <class Visitor>
constexpr decltype(auto) visit_dtype(DType dtype, Visitor&& visitor) {
  switch (dtype) {
#define X(id, name, type, ...) \
  case DType::id: return visitor(std::type_identity<type>{});
    DABKE_DTYPES(X)
#undef X
  }
  __builtin_unreachable();
}

/// The dtype of a C++ type: `dtype_of<float> == DType::f32`.
template <class T>
struct DTypeOf;
#define X(id, name, type, ...)                \
  template <>                                 \
  struct DTypeOf<type> {                      \
    static constexpr DType value = DType::id; \
  };
DABKE_DTYPES(X)
#undef X
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

/// The kind of a dtype's elements. The table of reduce operations lists the kinds on which each is defined.
enum Elements : std::uint8_t { kBooleans = 1, kIntegers = 2, kFloats = 4 };

constexpr Elements elements_of(DType dtype) {
  switch (dtype) {
#define X(id, name, type, ...) \
  case DType::id:              \
    return std::is_same_v<type, bool> ? kBooleans : std::is_integral_v<type> ? kIntegers : kFloats;
    DABKE_DTYPES(X)
#undef X
  }
  return kIntegers;
}

constexpr bool is_floating(DType dtype) { return elements_of(dtype) == kFloats; }

}  // namespace dabke

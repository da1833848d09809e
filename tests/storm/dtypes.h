// The element types, with a conversion of float16 and bfloat16 that is independent of the library under test.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "dabke/dlpack.h"

namespace storm {

enum class Dtype : std::uint8_t { b8, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64 };
constexpr int kDtypes = 13;

struct DtypeRow {
  const char* name;
  DLDataTypeCode code;
  int bits;
};
inline constexpr std::array<DtypeRow, kDtypes> kDtypeRows{{{"bool", kDLBool, 8},
                                                           {"int8", kDLInt, 8},
                                                           {"int16", kDLInt, 16},
                                                           {"int32", kDLInt, 32},
                                                           {"int64", kDLInt, 64},
                                                           {"uint8", kDLUInt, 8},
                                                           {"uint16", kDLUInt, 16},
                                                           {"uint32", kDLUInt, 32},
                                                           {"uint64", kDLUInt, 64},
                                                           {"float16", kDLFloat, 16},
                                                           {"bfloat16", kDLBfloat, 16},
                                                           {"float32", kDLFloat, 32},
                                                           {"float64", kDLFloat, 64}}};
constexpr const DtypeRow& row_of(Dtype dtype) { return kDtypeRows[static_cast<std::size_t>(dtype)]; }
constexpr std::size_t size_of(Dtype dtype) { return static_cast<std::size_t>(row_of(dtype).bits) / 8; }
constexpr bool is_float(Dtype dtype) { return dtype >= Dtype::f16; }
constexpr bool is_signed(Dtype dtype) { return dtype >= Dtype::i8 && dtype <= Dtype::i64; }
constexpr bool is_integer(Dtype dtype) { return dtype >= Dtype::i8 && dtype <= Dtype::u64; }

/// An element as its bits, the lowest first. Bits beyond the dtype's width are 0.
using Bits = std::uint64_t;

/// The integer of these bits, sign-extended if the dtype has a sign.
Bits extended(Dtype dtype, Bits bits);
/// The lowest bits of an integer.
Bits cut(Dtype dtype, Bits whole);
/// The bits of a floating-point dtype; rounds to nearest even.
Bits bits_of(Dtype dtype, double real);
double real_of(Dtype dtype, Bits bits);

Bits load(Dtype dtype, const std::byte* from);
void store(Dtype dtype, std::byte* to, Bits bits);

}  // namespace storm

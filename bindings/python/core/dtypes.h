// The dtypes by their NumPy names, the letters of the buffer protocol, and the numbers that stand for them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "dabke/dabke.h"

namespace dabke::python {

/// A dtype as one number, for callers that describe memory themselves: 256 times DLPack's code, plus the bits.
constexpr int number_of(DLDataType dtype) { return dtype.code << 8 | dtype.bits; }
constexpr DLDataType dtype_of(int number) {
  return {static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number & 255), 1};
}

/// `format` is what the buffer protocol calls it; bfloat16 has no letter and travels as 16 bits.
struct DtypeRow {
  std::string_view name;
  const char* format;
  DLDataType dtype;
};
inline constexpr std::array kDtypes = {
    DtypeRow{"bool", "?", {kDLBool, 8, 1}},        DtypeRow{"int8", "b", {kDLInt, 8, 1}},
    DtypeRow{"int16", "h", {kDLInt, 16, 1}},       DtypeRow{"int32", "i", {kDLInt, 32, 1}},
    DtypeRow{"int64", "l", {kDLInt, 64, 1}},       DtypeRow{"uint8", "B", {kDLUInt, 8, 1}},
    DtypeRow{"uint16", "H", {kDLUInt, 16, 1}},     DtypeRow{"uint32", "I", {kDLUInt, 32, 1}},
    DtypeRow{"uint64", "L", {kDLUInt, 64, 1}},     DtypeRow{"float16", "e", {kDLFloat, 16, 1}},
    DtypeRow{"bfloat16", "H", {kDLBfloat, 16, 1}}, DtypeRow{"float32", "f", {kDLFloat, 32, 1}},
    DtypeRow{"float64", "d", {kDLFloat, 64, 1}},
};

/// The row, or null.
constexpr const DtypeRow* row_of(DLDataType dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (number_of(row.dtype) == number_of(dtype) && dtype.lanes == 1) return &row;
  }
  return nullptr;
}

}  // namespace dabke::python

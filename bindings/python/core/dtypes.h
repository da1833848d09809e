// The dtypes by their NumPy names, the letters of the buffer protocol, and the numbers that stand for them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

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

/// All that the library has.
const std::vector<DtypeRow>& dtype_rows();

/// The row, or null.
const DtypeRow* row_of(DLDataType dtype);
/// The row of a name; an ArgumentError where there is none.
const DtypeRow& row_named(std::string_view name);

}  // namespace dabke::python

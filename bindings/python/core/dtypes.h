// The dtypes: their NumPy names, their letters in the buffer protocol, and their numbers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "dabke/dabke.h"

namespace dabke::python {

/// A dtype as one number, for callers that describe memory themselves: 256 times DLPack's code, plus the
/// bits.
constexpr int number_of(DLDataType dtype) { return dtype.code << 8 | dtype.bits; }
constexpr DLDataType dtype_of(int number) {
  return {static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number & 255), 1};
}

/// One dtype. `format` is its letter in the buffer protocol; bfloat16 lacks one and has that of 16-bit
/// integers.
struct DtypeRow {
  std::string_view name;
  const char* format;
  DLDataType dtype;
};

/// All dtypes of the library.
const std::vector<DtypeRow>& dtype_rows();

/// The row of a dtype, or null.
const DtypeRow* row_of(DLDataType dtype);
/// The row of a name; throws ArgumentError for an unknown name.
const DtypeRow& row_named(std::string_view name);

}  // namespace dabke::python

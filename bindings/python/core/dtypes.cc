#include "bindings/python/core/dtypes.h"

#include <algorithm>

#include "bindings/python/core/refusal.h"

namespace dabke::python {
namespace {

/// The letter of a dtype in the buffer protocol. Each array has the letters for 8, 16, 32 and 64 bits.
const char* format_of(DLDataType dtype) {
  static constexpr const char* kInts[] = {"b", "h", "i", "l"};
  static constexpr const char* kUInts[] = {"B", "H", "I", "L"};
  static constexpr const char* kFloats[] = {nullptr, "e", "f", "d"};
  const std::size_t index = dtype.bits == 8 ? 0 : dtype.bits == 16 ? 1 : dtype.bits == 32 ? 2 : 3;
  switch (dtype.code) {
    case kDLBool: return "?";
    case kDLInt: return kInts[index];
    case kDLFloat: return kFloats[index];
    default: return kUInts[index];
  }
}

}  // namespace

const std::vector<DtypeRow>& dtype_rows() {
  static const std::vector<DtypeRow> rows = [] {
    std::vector<DtypeRow> made;
    DLDataType dtype;
    for (std::size_t index = 0; const char* const name = dabke_dtype_name(index, &dtype); ++index)
      made.push_back({name, format_of(dtype), dtype});
    return made;
  }();
  return rows;
}

const DtypeRow* row_of(DLDataType dtype) {
  for (const DtypeRow& row : dtype_rows()) {
    if (number_of(row.dtype) == number_of(dtype) && dtype.lanes == 1) return &row;
  }
  return nullptr;
}

const DtypeRow& row_named(std::string_view name) {
  const auto row = std::ranges::find(dtype_rows(), name, &DtypeRow::name);
  if (row == dtype_rows().end()) throw ArgumentError("unknown dtype '" + std::string(name) + "'");
  return *row;
}

}  // namespace dabke::python

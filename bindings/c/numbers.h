// The numbers of dabke.h's enums, and the rows of the runtime's tables that they mean.
#pragma once

#include <cstring>
#include <optional>

#include "dabke/dabke.h"
#include "runtime/base/kinds.h"

namespace dabke {

/// A caller's number. The enum may lack it, so it must not be read as a value of the enum.
template <class Enum>
int number_in(const Enum& field) {
  int number = 0;
  static_assert(sizeof number == sizeof field);
  std::memcpy(&number, &field, sizeof number);
  return number;
}

/// The row of a caller's number in the table of `Row`; nothing for a number below 0 or beyond `last`.
template <class Row, class Enum>
std::optional<Row> row_in(const Enum& field, Row last = kLast<Row>) {
  const int number = number_in(field);
  if (number < 0 || number > static_cast<int>(last)) return std::nullopt;
  return static_cast<Row>(number);
}

/// The collective of a caller's number. Callers can name only the collectives that come before join.
inline std::optional<CollectiveKind> collective_in(const dabke_collective& field) {
  return row_in(field, static_cast<CollectiveKind>(DABKE_BARRIER));
}

}  // namespace dabke

// Strings on their way to C, which ends a string at its first NUL and works on UTF-8.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bindings/python/core/refusal.h"

namespace dabke::python {

/// The characters of `text`, for as long as it lives. `what` names it in the ArgumentError for a NUL or a surrogate.
const char* utf8_of(nb::str text, std::string_view what);

/// The same of each string of the list, with a null behind the last.
std::vector<const char*> all_utf8_of(nb::list texts, std::string_view what);

/// A text that people alone read: what C cannot take is escaped instead of refused.
std::string shown(nb::str text);

}  // namespace dabke::python

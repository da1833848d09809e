// Strings on their way to C. C needs UTF-8, and reads the first NUL as the end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bindings/python/core/refusal.h"

namespace dabke::python {

/// The characters of `text`, valid as long as `text` lives. Throws ArgumentError for a NUL or a surrogate;
/// `what` names the text in the error.
const char* utf8_of(nb::str text, std::string_view what);

/// utf8_of() of each string of the list, then a null pointer.
std::vector<const char*> all_utf8_of(nb::list texts, std::string_view what);

/// A text that only people read. Characters that C cannot take are escaped instead of refused.
std::string shown(nb::str text);

}  // namespace dabke::python

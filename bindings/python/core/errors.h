// The Python exceptions for the statuses of the C API.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "dabke/dabke.h"

namespace dabke::python {

namespace nb = nanobind;

/// An exception object with `text`, of the class in dabke.errors that belongs to `status`.
nb::object error_of(dabke_status status, const std::string& text);

/// Makes the exception `error` the interpreter's current error.
void set_error(nb::handle error);

/// Throws the exception `error`.
[[noreturn]] void raise(nb::handle error);
[[noreturn]] void raise(dabke_status status, const std::string& text);

/// Throws for anything but success, with the text of the calling thread's last failed call.
inline void check(dabke_status status) {
  if (status != DABKE_OK) raise(status, dabke_last_error());
}

}  // namespace dabke::python

// Errors that go to XLA, and the marks by which Python finds Dabke's status in them again.
#pragma once

#include <string>

#include "bindings/python/jax/xla_ffi.h"
#include "dabke/dabke.h"

namespace dabke::python::jax {

/// The text of an error: "[dabke <status>] " and the runtime's own words. `dabke/jax/errors.py` reads the
/// mark.
std::string marked(dabke_status status, const std::string& text);

/// A new error of XLA, with Dabke's mark in its text. Any thread.
xla::Error* make_error(const xla::Api& api, dabke_status status, const std::string& text);

}  // namespace dabke::python::jax

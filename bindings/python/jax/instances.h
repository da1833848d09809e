// The guard against one name at two places of a program, which XLA could run in either order.
#pragma once

#include <string>

#include "bindings/python/jax/xla_ffi.h"

namespace dabke::python::jax {

/// The fault when another place of the same execution has used `name` already; empty when nothing is.
/// A loop, which uses one place many times, is right. dabke/jax/instances.py numbers the places, so this
/// finds programs alone that were lowered without it. XLA names executions from 0.2 of its FFI on.
std::string other_instance(const xla::CallFrame& frame, const char* name);

}  // namespace dabke::python::jax

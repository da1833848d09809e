// Signals while a call of the C API waits: their handlers are Python's, and run on the main thread alone.
#pragma once

#include <optional>

#include "bindings/python/core/errors.h"

namespace dabke::python {

class Interruption {
 public:
  /// Runs the handlers that are due, for calls that wait; its context is context(). Null on a thread that runs none.
  static dabke_check check();
  void* context() { return this; }
  /// Throws what a handler has raised, such as KeyboardInterrupt; returns where none has.
  void raise_again();

 private:
  static int run_handlers(void* context);
  std::optional<nb::python_error> raised_;
};

}  // namespace dabke::python

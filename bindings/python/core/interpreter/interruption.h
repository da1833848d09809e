// Signals while a call of the C API waits. Python runs their handlers on the main thread only.
#pragma once

#include <optional>

#include "bindings/python/core/errors.h"

namespace dabke::python {

class Interruption {
 public:
  /// The check for a call that waits: it runs the handlers that are due. Its context is context(). Null on
  /// threads other than the main thread.
  static dabke_check check();
  void* context() { return this; }
  /// Throws the exception that a handler has raised, such as KeyboardInterrupt. Returns if there is none.
  void raise_again();

 private:
  static int run_handlers(void* context);
  std::optional<nb::python_error> raised_;
};

}  // namespace dabke::python

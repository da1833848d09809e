#include "bindings/python/core/interpreter/interruption.h"

namespace dabke::python {

int Interruption::run_handlers(void* context) {
  const PyGILState_STATE lock = PyGILState_Ensure();
  const bool raised = PyErr_CheckSignals() != 0;
  if (raised) static_cast<Interruption*>(context)->raised_.emplace();
  PyGILState_Release(lock);
  return raised ? 1 : 0;
}

dabke_check Interruption::check() {
  static const unsigned long main_thread =
      nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  return PyThread_get_thread_ident() == main_thread ? &run_handlers : nullptr;
}

void Interruption::raise_again() {
  if (!raised_) return;
  raised_->restore();
  nb::raise_python_error();
}

}  // namespace dabke::python

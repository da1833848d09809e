#include "bindings/python/core/errors.h"

namespace dabke::python {

nb::object error_of(dabke_status status, const std::string& text) {
  return nb::module_::import_("dabke.errors")
      .attr("from_status")(
          static_cast<int>(status),
          nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace")));
}

void set_error(nb::handle error) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
}

void raise(nb::handle error) {
  set_error(error);
  nb::raise_python_error();
}

void raise(dabke_status status, const std::string& text) { raise(error_of(status, text)); }

}  // namespace dabke::python

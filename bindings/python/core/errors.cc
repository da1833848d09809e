#include "bindings/python/core/errors.h"

namespace dabke::python {

void raise(dabke_status status, const std::string& text) {
  const nb::object error =
      nb::module_::import_("dabke.errors")
          .attr("from_status")(
              static_cast<int>(status),
              nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace")));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  nb::raise_python_error();
}

}  // namespace dabke::python

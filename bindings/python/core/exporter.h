// Memory of the runtime's that Python reads and writes in place: it is exported by the buffer protocol.
#pragma once

#include <vector>

#include "bindings/python/core/errors.h"

namespace dabke::python {

/// Fills `view` for `tensor`, which is compact. `exporter` is the Python object that keeps the memory.
/// 0, or -1 with a Python error. `dims_and_strides` must live as long as the exporter: ndim sizes, then ndim
/// strides in bytes.
int export_tensor(PyObject* exporter, const DLTensor& tensor, std::vector<Py_ssize_t>& dims_and_strides,
                  Py_buffer* view, int flags);

}  // namespace dabke::python

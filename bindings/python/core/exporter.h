// Exports memory of the runtime by the buffer protocol, so that Python reads and writes it in place.
#pragma once

#include <vector>

#include "bindings/python/core/errors.h"

namespace dabke::python {

/// Fills `view` for `tensor`, which is compact. Returns 0, or -1 with a Python error.
///   exporter          the Python object that keeps the memory alive
///   dims_and_strides  ndim sizes, then ndim strides in bytes; must live as long as the exporter
int export_tensor(PyObject* exporter, const DLTensor& tensor, std::vector<Py_ssize_t>& dims_and_strides,
                  Py_buffer* view, int flags);

}  // namespace dabke::python

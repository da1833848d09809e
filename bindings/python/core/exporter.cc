#include "bindings/python/core/exporter.h"

#include "bindings/python/core/dtypes.h"

namespace dabke::python {
namespace {

/// The address of tensors without elements: consumers do not expect null.
alignas(64) std::byte nothing[64];

}  // namespace

int export_tensor(PyObject* exporter, const DLTensor& tensor, std::vector<Py_ssize_t>& dims_and_strides,
                  Py_buffer* view, int flags) {
  const DtypeRow* const row = row_of(tensor.dtype);
  if (row == nullptr || (tensor.device.device_type != kDLCPU && tensor.device.device_type != kDLCUDAHost)) {
    PyErr_SetString(PyExc_BufferError, "only host memory of a known dtype can be exported as a buffer");
    view->obj = nullptr;
    return -1;
  }
  const auto ndim = static_cast<std::size_t>(tensor.ndim);
  const Py_ssize_t item_bytes = tensor.dtype.bits / 8;
  if (dims_and_strides.empty()) dims_and_strides.resize(2 * ndim);
  Py_ssize_t bytes = item_bytes;
  for (std::size_t i = ndim; i-- > 0;) {
    dims_and_strides[i] = tensor.shape[i];
    dims_and_strides[ndim + i] = bytes;
    bytes *= tensor.shape[i];
  }
  view->buf = tensor.data != nullptr ? static_cast<std::byte*>(tensor.data) + tensor.byte_offset : nothing;
  view->len = bytes;
  view->itemsize = item_bytes;
  view->readonly = 0;
  view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(row->format) : nullptr;
  view->ndim = tensor.ndim;
  view->shape = (flags & PyBUF_ND) != 0 ? dims_and_strides.data() : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? dims_and_strides.data() + ndim : nullptr;
  view->suboffsets = nullptr;
  view->internal = nullptr;
  view->obj = Py_NewRef(exporter);
  return 0;
}

}  // namespace dabke::python

// The handle of an asynchronous operation, and its outputs, as Python sees them.
#pragma once

#include <memory>

#include "bindings/python/core/operation.h"

namespace dabke::python {

/// The handle of a submitted operation. `result` is the caller's result, such as the array that the operation
/// fills; None: the operation's outputs.
struct Handle {
  std::shared_ptr<const Operation> operation;
  nb::object result;
};

/// An output of a completed operation. Its memory lives as long as any object refers to it.
class Output {
 public:
  Output(std::shared_ptr<const Operation> operation, std::size_t index);

  const DLTensor& dl() const { return *tensor_; }
  nb::object capsule(bool versioned) const;
  /// Exports the output by the buffer protocol. `self` is this output as a Python object.
  int get_buffer(PyObject* self, Py_buffer* view, int flags);

 private:
  std::shared_ptr<const Operation> operation_;
  std::size_t index_;
  const DLTensor* tensor_ = nullptr;
  std::vector<Py_ssize_t> dims_and_strides_;
};

void bind_handle(nb::module_& module);

}  // namespace dabke::python

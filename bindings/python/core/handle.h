// The handle of an asynchronous operation, and its outputs, as Python sees them.
#pragma once

#include <memory>

#include "bindings/python/core/operation.h"

namespace dabke::python {

/// `result` is what the caller gets for the operation, such as the array that it is to fill; None: its outputs.
struct Handle {
  std::shared_ptr<const Operation> operation;
  nb::object result;
};

/// An output of a completed operation, which lives as long as anything refers to it.
class Output {
 public:
  Output(std::shared_ptr<const Operation> operation, std::size_t index);

  const DLTensor& dl() const { return *tensor_; }
  nb::object capsule(bool versioned) const;
  /// The buffer protocol's; `self` is this as a Python object.
  int get_buffer(PyObject* self, Py_buffer* view, int flags);

 private:
  std::shared_ptr<const Operation> operation_;
  std::size_t index_;
  const DLTensor* tensor_ = nullptr;
  std::vector<Py_ssize_t> dims_and_strides_;
};

void bind_handle(nb::module_& module);

}  // namespace dabke::python

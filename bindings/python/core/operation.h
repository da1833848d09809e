// A submitted operation: the C API's handle, and the tensors that must outlive it.
//
//   1. Each operation keeps its tensors, and so the Python objects that own the memory.
//   2. When an operation that has completed is destroyed, its handle and tensors are freed.
//   3. When a pending operation is destroyed, because its handle was dropped, handle and tensors move to a
//      list of abandoned operations. Each submit checks a few of these and frees those that have completed.
// So memory is never freed while the runtime may touch it. And a thread of the runtime that finishes an
// operation does not need the interpreter's lock.
#pragma once

#include <memory>
#include <vector>

#include "bindings/python/core/tensor.h"

namespace dabke::python {

using Tensors = std::vector<std::shared_ptr<const Tensor>>;

class Operation {
 public:
  Operation(dabke_handle* handle, Tensors tensors) : handle_(handle), tensors_(std::move(tensors)) {}
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  dabke_handle* handle() const { return handle_; }
  /// The index of the CUDA device that has its tensors; -1 if they are not on a CUDA device.
  int cuda_device() const;

  /// Waits at most `timeout_seconds` (negative: without limit), without the interpreter's lock. Returns false
  /// after a timeout. Throws the operation's error. Also throws the exception of a signal handler that ran
  /// meanwhile, such as KeyboardInterrupt: the operation then goes on, and can be waited for again.
  bool wait(double timeout_seconds) const;
  /// Like wait(), but only until `stream`, a cudaStream_t, waits for the operation (dabke_wait_stream).
  bool wait_stream(std::uintptr_t stream, double timeout_seconds) const;
  /// Throws unless the operation has completed and succeeded.
  void check_complete() const;

 private:
  template <class Wait>
  bool wait_by(Wait wait) const;

  dabke_handle* handle_;
  Tensors tensors_;
};

/// Frees some of the abandoned operations that have completed. Cheap if the list is empty.
void free_abandoned_operations();
/// Frees all abandoned operations that have completed, and returns the number of those that are pending.
std::size_t abandoned_operations();

}  // namespace dabke::python

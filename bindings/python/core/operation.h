// An operation under way: the C API's handle, and the tensors that must outlive it.
//
//   1. Each operation keeps its tensors, and by them the Python objects that own the memory.
//   2. Who lets go of an operation that has completed frees both.
//   3. Who lets go of a pending one, by dropping a handle that nobody waits for, moves both to a list of abandoned
//      operations. Each submit looks at a few of these and frees what has completed.
// So memory never goes back while the runtime may touch it, and no thread of the runtime needs the interpreter's
// lock to say that it has finished.
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
  /// The index of the CUDA device that has its tensors; -1: none has.
  int cuda_device() const;

  /// Waits at most `timeout_seconds`, without limit where that is negative, and without the interpreter's lock.
  /// False when the time is up; throws the operation's error, and what a signal's handler has raised meanwhile,
  /// such as KeyboardInterrupt: the operation goes on then, and can be waited for again.
  bool wait(double timeout_seconds) const;
  /// The same until `stream`, a cudaStream_t, waits for the operation (dabke_wait_stream).
  bool wait_stream(std::uintptr_t stream, double timeout_seconds) const;
  /// Throws unless the operation has completed and succeeded.
  void check_complete() const;

 private:
  template <class Wait>
  bool wait_by(Wait wait) const;

  dabke_handle* handle_;
  Tensors tensors_;
};

/// Frees some of the abandoned operations that have completed. Cheap where there are none.
void free_abandoned_operations();
/// How many wait to be freed, after all that can be have been.
std::size_t abandoned_operations();

}  // namespace dabke::python

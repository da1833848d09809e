#include "bindings/python/core/operation.h"

#include <deque>

#include "bindings/python/core/interpreter/gil.h"
#include "bindings/python/core/interpreter/interruption.h"

namespace dabke::python {
namespace {

/// A dropped handle, and the tensors that its operation still needs.
struct Abandoned {
  dabke_handle* handle;
  Tensors tensors;
};

/// The abandoned operations. Guarded by the interpreter's lock. Never destroyed: operations that are pending
/// when the process ends still use their memory.
std::deque<Abandoned>& abandoned() {
  static auto& list = *new std::deque<Abandoned>;
  return list;
}

/// Checks the oldest `count` operations, and moves those that are still pending to the end. An operation
/// leaves the list before its tensors are freed: that may run any Python code, which may submit.
void free_completed(std::size_t count) {
  std::vector<Abandoned> completed;
  std::deque<Abandoned>& list = abandoned();
  for (; count > 0 && !list.empty(); --count) {
    Abandoned oldest = std::move(list.front());
    list.pop_front();
    if (dabke_poll(oldest.handle) != 0) {
      dabke_handle_free(oldest.handle);
      completed.push_back(std::move(oldest));
    } else {
      list.push_back(std::move(oldest));
    }
  }
}

}  // namespace

Operation::~Operation() {
  if (dabke_poll(handle_) != 0) {
    dabke_handle_free(handle_);
  } else {
    abandoned().push_back({handle_, std::move(tensors_)});
  }
}

int Operation::cuda_device() const {
  for (const auto& tensor : tensors_) {
    const DLDevice device = tensor->dl().device;
    if (device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged) return device.device_id;
  }
  return -1;
}

bool Operation::wait(double timeout_seconds) const {
  return wait_by([&](dabke_check check, void* context) {
    return dabke_wait_checking(handle_, timeout_seconds, check, context);
  });
}

bool Operation::wait_stream(std::uintptr_t stream, double timeout_seconds) const {
  return wait_by([&](dabke_check check, void* context) {
    return dabke_wait_stream_checking(handle_, reinterpret_cast<void*>(stream), timeout_seconds, check,
                                      context);
  });
}

/// Waits by `wait`, a function of the C API. An operation that has completed needs no wait, also on a stream.
template <class Wait>
bool Operation::wait_by(Wait wait) const {
  dabke_status status = dabke_handle_status(handle_);
  if (status == DABKE_IN_PROGRESS) {
    Interruption interruption;
    const dabke_check check = Interruption::check();
    status = without_gil([&] { return wait(check, interruption.context()); });
    interruption.raise_again();
  }
  if (status == DABKE_IN_PROGRESS) return false;
  if (status == DABKE_OK) return true;
  // A refused wait leaves the operation unchanged; its text is then in dabke_last_error().
  if (dabke_handle_status(handle_) == status) raise(status, dabke_handle_message(handle_));
  raise(status, dabke_last_error());
}

void Operation::check_complete() const {
  const dabke_status status = dabke_handle_status(handle_);
  if (status == DABKE_OK) return;
  if (status == DABKE_IN_PROGRESS) {
    raise(DABKE_ERROR_INVALID_ARGUMENT, "the operation is still pending; wait for it first");
  }
  raise(status, dabke_handle_message(handle_));
}

void free_abandoned_operations() {
  if (!abandoned().empty()) free_completed(4);
}

std::size_t abandoned_operations() {
  free_completed(abandoned().size());
  return abandoned().size();
}

}  // namespace dabke::python

#include "bindings/python/core/operation.h"

#include <deque>

#include "bindings/python/core/interpreter/gil.h"
#include "bindings/python/core/interpreter/interruption.h"

namespace dabke::python {
namespace {

/// A dropped handle and what its operation still needs.
struct Abandoned {
  dabke_handle* handle;
  Tensors tensors;
};

/// Guarded by the interpreter's lock. Never destroyed: what is pending when the process ends stays in use.
std::deque<Abandoned>& abandoned() {
  static auto& list = *new std::deque<Abandoned>;
  return list;
}

/// Looks at the oldest `count`; those that are still pending go to the end. What is freed is out of the list
/// first, because freeing it may run any Python code, also such that submits.
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

/// Where it has completed there is nothing to wait for, on a stream neither.
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
  // A wait that was refused has left the operation as it was, and its text elsewhere.
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

// The checks that every call for an output of a handle makes.
#pragma once

#include <fmt/format.h>

#include "bindings/c/state.h"

namespace dabke {

inline Status missing_handle() { return {Code::invalid_argument, "the handle is NULL"}; }

/// The operation's status; in_progress while the operation is pending.
inline Status completed(const dabke_handle* handle) {
  if (handle == nullptr) return missing_handle();
  return handle->status();
}

/// Like completed(), but also ok once the whole operation is enqueued on its device. From then on the
/// addresses of its outputs are settled.
inline Status settled(const dabke_handle* handle) {
  if (handle != nullptr && handle->end_on_device() != nullptr) return {};
  return completed(handle);
}

/// Output `index` of an operation whose outputs are settled.
inline Result<const TensorView*> settled_output(const dabke_handle* handle, std::size_t index) {
  DABKE_RETURN_IF_ERROR(settled(handle));
  if (index < handle->outputs.size()) return &handle->outputs[index];
  return Status(Code::invalid_argument,
                fmt::format("output {} does not exist: there are {}", index, handle->outputs.size()));
}

}  // namespace dabke

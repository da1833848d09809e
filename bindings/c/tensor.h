// DLPack tensors in and out.
#pragma once

#include "dabke/dlpack.h"
#include "runtime/call/request.h"

namespace dabke {

/// The role of a tensor in a call, with which error texts about the tensor begin.
struct TensorRole {
  CollectiveKind kind;
  const char* name;
  bool is_output = false;
  /// "allreduce 'x'", "allreduce 'x', output"
  std::string to_string() const;
};

/// The view that `tensor` describes.
///   errors  invalid_argument for strided memory and impossible shapes; unsupported for other dtypes and
///           devices
Result<TensorView> from_dlpack(const DLTensor* tensor, const TensorRole& role);
/// The tensor's `shape` points into `view`.
DLTensor to_dlpack(const TensorView& view);

}  // namespace dabke

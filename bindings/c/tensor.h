// DLPack tensors in and out.
#pragma once

#include "dabke/dlpack.h"
#include "runtime/call/request.h"

namespace dabke {

/// What a tensor is to a call; the beginning of messages about it.
struct TensorRole {
  CollectiveKind kind;
  const char* name;
  bool is_output = false;
  /// "allreduce 'x'", "allreduce 'x', output"
  std::string to_string() const;
};

/// The view that `tensor` describes. Strided memory, vector dtypes and unknown dtypes are refused.
Result<TensorView> from_dlpack(const DLTensor* tensor, const TensorRole& role);
/// `shape` points into `view`.
DLTensor to_dlpack(const TensorView& view);

}  // namespace dabke

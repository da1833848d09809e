// DLPack tensors in and out.
#pragma once

#include "dabke/dlpack.h"
#include "runtime/negotiation/request.h"

namespace dabke {

/// The view that `tensor` describes. Strided memory, vector dtypes and unknown dtypes are refused; `who`
/// ("allreduce 'x'") begins the message.
Result<TensorView> from_dlpack(const DLTensor* tensor, const std::string& who);
/// `shape` points into `view`.
DLTensor to_dlpack(const TensorView& view);

}  // namespace dabke

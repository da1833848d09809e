// NCCL's constants for our dtypes and reduce operations.
#pragma once

#include <optional>

#include "ops/nccl/nccl_library.h"
#include "runtime/base/dtype.h"
#include "runtime/base/kinds.h"

namespace dabke::ops {

inline constexpr nccl::Type ncclInt8 = 0;
inline constexpr nccl::Type ncclUint8 = 1;
inline constexpr nccl::Type ncclInt32 = 2;
inline constexpr nccl::Type ncclUint32 = 3;
inline constexpr nccl::Type ncclInt64 = 4;
inline constexpr nccl::Type ncclUint64 = 5;
inline constexpr nccl::Type ncclFloat16 = 6;
inline constexpr nccl::Type ncclFloat32 = 7;
inline constexpr nccl::Type ncclFloat64 = 8;
inline constexpr nccl::Type ncclBfloat16 = 9;
/// The dtype for elements that are moved and not reduced.
inline constexpr nccl::Type kNcclBytes = ncclUint8;

/// Nothing if NCCL cannot calculate with the dtype. A boolean is a byte, 0 or not.
constexpr std::optional<nccl::Type> nccl_dtype(DType dtype) {
  if (dtype == DType::b8) return ncclUint8;
  switch (dtype) {
#define X(id, name, type, mpi, nccl, ...) \
  case DType::id: return nccl;
    DABKE_DTYPES(X)
#undef X
  }
  return std::nullopt;
}

/// For booleans, the maximum is "or" and the minimum is "and".
constexpr std::optional<nccl::Op> nccl_op(DType dtype, ReduceOp op) {
  const bool is_boolean = dtype == DType::b8;
  switch (op) {
    case ReduceOp::sum: return is_boolean ? nccl::kMax : nccl::kSum;
    case ReduceOp::product: return is_boolean ? nccl::kMin : nccl::kProd;
    case ReduceOp::min: return nccl::kMin;
    case ReduceOp::max: return nccl::kMax;
    case ReduceOp::bitwise_and:
      if (is_boolean) return nccl::kMin;
      break;
    case ReduceOp::bitwise_or:
      if (is_boolean) return nccl::kMax;
      break;
    default: break;
  }
  return std::nullopt;
}

}  // namespace dabke::ops

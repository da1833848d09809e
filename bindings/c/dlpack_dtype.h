// The dtypes in DLPack's form.
#pragma once

#include <optional>

#include "dabke/dlpack.h"
#include "runtime/base/dtype.h"

namespace dabke {

constexpr DLDataType dlpack_dtype(DType dtype) {
  switch (dtype) {
#define X(id, name, type, mpi, nccl, code) \
  case DType::id: return {code, 8 * sizeof(type), 1};
    DABKE_DTYPES(X)
#undef X
  }
  return {};
}

/// The dtype of a DLPack type; nothing for one that Dabke does not support.
constexpr std::optional<DType> dtype_from_dlpack(const DLDataType& dtype) {
  if (dtype.lanes != 1) return std::nullopt;
#define X(id, name, type, mpi, nccl, dl_code) \
  if (dtype.code == dl_code && dtype.bits == 8 * sizeof(type)) return DType::id;
  DABKE_DTYPES(X)
#undef X
  return std::nullopt;
}

}  // namespace dabke

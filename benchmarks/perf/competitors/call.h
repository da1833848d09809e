// One collective on given memory, as every competitor is asked to run it.
#pragma once

#include <cstdint>

#include "runtime/base/dtype.h"
#include "runtime/base/kinds.h"

namespace dabke::perf {

/// The root of a broadcast is rank 0. Inputs and outputs have the same numbers of elements on every rank.
struct Call {
  CollectiveKind kind = CollectiveKind::allreduce;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int rank = 0;
  int ranks = 1;
  std::int64_t elements = 0;         // of the input
  std::int64_t output_elements = 0;  // allgather: ranks times as many; reducescatter: a share of 1 / ranks
  void* input = nullptr;
  void* output = nullptr;  // the same as the input: in place

  bool in_place() const { return input == output; }
  std::size_t input_bytes() const { return static_cast<std::size_t>(elements) * size_of(dtype); }
  std::size_t output_bytes() const { return static_cast<std::size_t>(output_elements) * size_of(dtype); }
  /// The size in the table: that of the larger of the two.
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(input_bytes() > output_bytes() ? input_bytes() : output_bytes());
  }
  /// The number of elements in one rank's part, if there are parts.
  std::int64_t part() const { return kind == CollectiveKind::allgather ? elements : elements / ranks; }
};

/// A call of about `bytes`, without memory. Rounded so that it has whole elements, and each rank a part.
inline Call call_of(CollectiveKind kind, DType dtype, ReduceOp op, int rank, int ranks, std::int64_t bytes) {
  Call call{.kind = kind, .dtype = dtype, .op = op, .rank = rank, .ranks = ranks};
  if (kind == CollectiveKind::barrier) return call;
  const bool in_parts = divides_rows(kind);
  const std::int64_t unit = static_cast<std::int64_t>(size_of(dtype)) * (in_parts ? ranks : 1);
  const std::int64_t part = bytes / unit > 0 ? bytes / unit : 1;
  const std::int64_t all = part * (in_parts ? ranks : 1);
  call.elements = kind == CollectiveKind::allgather ? part : all;
  call.output_elements = kind == CollectiveKind::reducescatter ? part : all;
  return call;
}

/// Bus bandwidth is algorithm bandwidth times this factor, as nccl-tests defines it.
inline double bus_factor(CollectiveKind kind, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  if (kind == CollectiveKind::allreduce) return 2 * share;
  return divides_rows(kind) ? share : 1;
}

}  // namespace dabke::perf

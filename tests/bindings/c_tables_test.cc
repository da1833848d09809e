// The numbers of the public C header are those of the tables inside.
#include <catch2/catch.hpp>

#include "dabke/dabke.h"
#include "runtime/base/dtype.h"
#include "runtime/base/kinds.h"
#include "runtime/base/status.h"

namespace dabke::test {

TEST_CASE("every status code of the C header has the value of its row") {
  const std::pair<dabke_status, Code> pairs[] = {
      {DABKE_OK, Code::ok},
      {DABKE_IN_PROGRESS, Code::in_progress},
      {DABKE_ERROR_INVALID_ARGUMENT, Code::invalid_argument},
      {DABKE_ERROR_NOT_INITIALIZED, Code::not_initialized},
      {DABKE_ERROR_ALREADY_INITIALIZED, Code::already_initialized},
      {DABKE_ERROR_MISMATCH, Code::mismatch},
      {DABKE_ERROR_DUPLICATE_NAME, Code::duplicate_name},
      {DABKE_ERROR_UNKNOWN_PROCESS_SET, Code::unknown_process_set},
      {DABKE_ERROR_PEER_LOST, Code::peer_lost},
      {DABKE_ERROR_SHUT_DOWN, Code::shut_down},
      {DABKE_ERROR_STALLED, Code::stalled},
      {DABKE_ERROR_ABORTED, Code::aborted},
      {DABKE_ERROR_TIMEOUT, Code::timeout},
      {DABKE_ERROR_NOT_IMPLEMENTED, Code::not_implemented},
      {DABKE_ERROR_NOT_BUILT, Code::not_built},
      {DABKE_ERROR_UNSUPPORTED, Code::unsupported},
      {DABKE_ERROR_OUT_OF_MEMORY, Code::out_of_memory},
      {DABKE_ERROR_TRANSPORT, Code::transport},
      {DABKE_ERROR_FORKED, Code::forked},
      {DABKE_ERROR_INTERNAL, Code::internal},
      {DABKE_ERROR_INTERRUPTED, Code::interrupted},
  };
  int rows = 0;
#define X(id, value, text) ++rows;
  DABKE_CODES(X)
#undef X
  CHECK(static_cast<int>(std::size(pairs)) == rows);
  for (const auto& [c, code] : pairs) CHECK(static_cast<int>(c) == static_cast<int>(code));
}

TEST_CASE("the reduce operations of the C header have the values of their rows") {
  const std::pair<dabke_reduce_op, ReduceOp> pairs[] = {
      {DABKE_AVERAGE, ReduceOp::average},
      {DABKE_SUM, ReduceOp::sum},
      {DABKE_ADASUM, ReduceOp::adasum},
      {DABKE_MIN, ReduceOp::min},
      {DABKE_MAX, ReduceOp::max},
      {DABKE_PRODUCT, ReduceOp::product},
      {DABKE_BITWISE_AND, ReduceOp::bitwise_and},
      {DABKE_BITWISE_OR, ReduceOp::bitwise_or},
      {DABKE_BITWISE_XOR, ReduceOp::bitwise_xor},
  };
  CHECK(std::size(pairs) == kReduceOps.size());
  for (const auto& [c, op] : pairs) CHECK(static_cast<int>(c) == static_cast<int>(op));
}

TEST_CASE("the collectives of the C header have the values of their rows") {
  const std::pair<dabke_collective, CollectiveKind> pairs[] = {
      {DABKE_ALLREDUCE, CollectiveKind::allreduce},         {DABKE_ALLGATHER, CollectiveKind::allgather},
      {DABKE_BROADCAST, CollectiveKind::broadcast},         {DABKE_ALLTOALL, CollectiveKind::alltoall},
      {DABKE_REDUCESCATTER, CollectiveKind::reducescatter}, {DABKE_BARRIER, CollectiveKind::barrier},
  };
  for (const auto& [c, kind] : pairs) CHECK(static_cast<int>(c) == static_cast<int>(kind));
}

TEST_CASE("the DLPack type codes of the dtype rows are the standard's") {
  CHECK(dtype_from_dlpack(kDLFloat, 32) == DType::f32);
  CHECK(dtype_from_dlpack(kDLBfloat, 16) == DType::bf16);
  CHECK(dtype_from_dlpack(kDLBool, 8) == DType::b8);
  CHECK(dtype_from_dlpack(kDLUInt, 64) == DType::u64);
  CHECK(dtype_from_dlpack(kDLInt, 8) == DType::i8);
  CHECK(dtype_from_dlpack(kDLFloat, 16) == DType::f16);
  CHECK_FALSE(dtype_from_dlpack(kDLComplex, 64));
}

}  // namespace dabke::test

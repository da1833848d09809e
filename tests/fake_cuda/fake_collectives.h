// The collectives of the fake NCCL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fake_cuda/fake_ranks.h"

namespace dabke::test {

enum Kind { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kSend, kReceive };

struct Call {
  std::string call;
  int kind;
  const void* from;
  void* to;
  std::size_t count;
  nccl::Type type;
  nccl::Op op;
  int root;  // or the peer
};

inline constexpr std::size_t kWidths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
inline std::size_t bytes_of(const Call& op) { return op.count * kWidths[op.type]; }

/// Runs one collective of all ranks. Returns false if something has ended it. `call` is different from the
/// numbers of the collectives before and after it.
bool run_collective(Shared& comm, const Call& op, std::uint64_t call);

}  // namespace dabke::test

// The bytes of a collective that a link must carry at least, whatever the algorithm. With them the speeds of
// different collectives and numbers of ranks can be compared with the speed of a link.
//   source  the factors of nccl-tests' PERFORMANCE.md
#pragma once

#include <cstdint>

#include "runtime/timeline/joining/record_joiner.h"

namespace dabke::timeline {

/// Computed from the bytes of `part`. For an allgather, where each rank contributes its own rows, it is
/// computed from the bytes of all ranks.
inline double bus_bytes(const JoinedBatch& batch, const RankPart& part) {
  const auto ranks = static_cast<double>(batch.parts.size());
  const double share = (ranks - 1) / ranks;
  const auto own = static_cast<double>(part.bytes());
  if (scatters(batch.kind)) return share * own;
  switch (batch.kind) {
    case CollectiveKind::allreduce: return 2 * share * own;
    case CollectiveKind::alltoall: return share * own;
    case CollectiveKind::allgather: {
      double all = 0;
      for (const RankPart& one : batch.parts) all += static_cast<double>(one.bytes());
      return share * all;
    }
    default: return own;
  }
}

}  // namespace dabke::timeline

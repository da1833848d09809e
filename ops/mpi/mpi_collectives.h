// The collectives over MPI. An allreduce reads the tensors of a batch directly and writes them directly. The
// others work on one contiguous piece of memory.
//
// MPI moves bytes; our own kernels reduce them, in rank order whatever the size, offset or MPI library. So
// every dtype and operation works, all ranks have the same bits, and runs repeat bit for bit.
//
// MPI never gets memory of the user's, and only a few megabytes of ours at a time. A collective of MPI's
// cannot be cancelled, so after an abort its memory is left to MPI for good. Rounds of that size also keep
// every count far below 2^31.
//
// The first data to move are the marks of the batch that each rank brings (BatchMark). They travel with the
// data of a small batch, as a barrier, and otherwise in an allgather of their own.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/fusion_buffer.h"
#include "runtime/backend/pieces.h"
#include "runtime/base/dtype.h"
#include "runtime/base/kinds.h"
#include "runtime/kernels/kernels.h"
#include "runtime/modules/mpi_session.h"

namespace dabke::ops {

/// Memory and counts that MPI may still use after an abort.
struct MpiStaging {
  FusionBuffer memory;
  std::vector<int> send_counts, send_offsets, receive_counts, receive_offsets;  // in bytes
};

struct MpiRun {
  modules::MpiCommunicator& comm;
  const BatchMark& mark;
  std::span<const Rank> ranks;  // the set's ranks, numbered in the world
  std::size_t rank;
  std::size_t size;
  DType dtype;
  ReduceOp op;
  MpiStaging& staging;
  std::size_t round_bytes;                     // staged at once, in each direction; equal on all ranks
  const std::function<Status()>& interrupted;  // called while waiting; its error ends the run
};

/// The default of `round_bytes`: the most memory that one round stages in each direction.
inline constexpr std::size_t kMpiRoundBytes = std::size_t{8} << 20;

/// Reduces the `in` of all ranks, each multiplied by its `prescale`, and writes the sum, scaled by `result`,
/// to `out`. `out` has as many elements as `in`. A tensor may be a piece of both.
Status mpi_allreduce(const MpiRun& run, const InPieces& in, double prescale, const OutPieces& out,
                     const kernels::Scale& result);
Status mpi_reducescatter(const MpiRun& run, const std::byte* send, std::span<const std::size_t> counts,
                         std::byte* data, const kernels::Scale& result);
Status mpi_allgather(const MpiRun& run, std::byte* data, std::span<const std::size_t> counts);
Status mpi_broadcast(const MpiRun& run, std::byte* data, std::size_t elements, int root);
Status mpi_alltoall(const MpiRun& run, const std::byte* send, std::span<const std::size_t> send_counts,
                    std::byte* data, std::span<const std::size_t> receive_counts);
Status mpi_barrier(const MpiRun& run);

// Device memory, which MPI takes and the host does not touch. After an error it belongs to MPI for good.
/// Runs in place. Each rank reduces its slice on its host, in the same order and rounds as above, so with the
/// same bits.
Status mpi_allreduce_on_device(const MpiRun& run, std::byte* data, std::size_t elements,
                               const kernels::Scale& result);
Status mpi_broadcast_on_device(const MpiRun& run, std::byte* data, std::size_t elements, int root);

}  // namespace dabke::ops

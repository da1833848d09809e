// The collectives over MPI: an allreduce straight from the tensors of a batch and into them, the others on
// one contiguous piece of memory.
//
// MPI moves bytes; our own kernels reduce them, in rank order whatever the size, offset or MPI library. So
// every dtype and operation works, all ranks have the same bits, and runs repeat bit for bit.
//
// MPI never sees memory of the user's, and of ours a few megabytes at a time: a collective of MPI's cannot be
// taken back, so after an abort its memory is left to it for good. Rounds of that size also keep every count
// far below 2^31.
//
// The first thing that moves is what each rank brings to the run (BatchMark): with the data where that is
// little, as a barrier, and else in a gathering of its own.
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

/// What MPI may still be using after an abort.
struct MpiStaging {
  FusionBuffer memory;
  std::vector<int> send_counts, send_offsets, receive_counts, receive_offsets;  // in bytes
};

struct MpiRun {
  modules::MpiCommunicator& comm;
  const BatchMark& mark;
  std::span<const Rank> ranks;  // the set's, in the world
  std::size_t rank;
  std::size_t size;
  DType dtype;
  ReduceOp op;
  MpiStaging& staging;
  std::size_t round_bytes;                     // staged at once, in each direction; the same on all ranks
  const std::function<Status()>& interrupted;  // asked while waiting; the run ends with what it says
};

/// The largest memory that one round stages in each direction.
inline constexpr std::size_t kMpiRoundBytes = std::size_t{8} << 20;

/// The reduction of all ranks' `in`, each multiplied by its `prescale`, scaled as `result` says, in `out`,
/// which has as many elements. A tensor may be a piece of both.
Status mpi_allreduce(const MpiRun& run, const InPieces& in, double prescale, const OutPieces& out,
                     const kernels::Scale& result);
Status mpi_reducescatter(const MpiRun& run, const std::byte* send, std::span<const std::size_t> counts,
                         std::byte* data, const kernels::Scale& result);
Status mpi_allgather(const MpiRun& run, std::byte* data, std::span<const std::size_t> counts);
Status mpi_broadcast(const MpiRun& run, std::byte* data, std::size_t elements, int root);
Status mpi_alltoall(const MpiRun& run, const std::byte* send, std::span<const std::size_t> send_counts,
                    std::byte* data, std::span<const std::size_t> receive_counts);
Status mpi_barrier(const MpiRun& run);

// On memory of a device, which MPI takes and the host does not touch. It is MPI's for good after an error.
/// In place. What a rank reduces comes to its host, in the same order and rounds as above, so to the same bits.
Status mpi_allreduce_on_device(const MpiRun& run, std::byte* data, std::size_t elements,
                               const kernels::Scale& result);
Status mpi_broadcast_on_device(const MpiRun& run, std::byte* data, std::size_t elements, int root);

}  // namespace dabke::ops

#include "ops/mpi/mpi_collectives.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "runtime/kernels/kernels.h"

namespace dabke::ops {
namespace {

Status finish(const MpiRun& run) {
  for (;;) {
    DABKE_ASSIGN_OR_RETURN(const bool is_done, run.comm.test());
    if (is_done) return {};
    DABKE_RETURN_IF_ERROR(run.interrupted());
  }
}

/// Like memcpy, but accepts null pointers when there is nothing to copy.
void copy_bytes(std::byte* into, const std::byte* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(into, from, bytes);
}

/// Computes the offsets of blocks that lie one behind the other. Returns their total.
std::size_t stack(const std::vector<int>& counts, std::vector<int>& offsets) {
  offsets.clear();
  std::size_t total = 0;
  for (const int count : counts) {
    offsets.push_back(static_cast<int>(total));
    total += static_cast<std::size_t>(count);
  }
  return total;
}

/// Returns the number of bytes that round `first / most` moves of a block of `count` elements.
int part(const MpiRun& run, std::size_t count, std::size_t first, std::size_t most) {
  return static_cast<int>((count <= first ? 0 : std::min(count - first, most)) * size_of(run.dtype));
}

std::vector<std::size_t> starts_of(std::span<const std::size_t> counts) {
  std::vector<std::size_t> starts{0};
  for (const std::size_t count : counts) starts.push_back(starts.back() + count);
  return starts;
}

/// Returns the number of elements of each rank's block that one round moves.
std::size_t block_elements(const MpiRun& run) {
  return std::max<std::size_t>(run.round_bytes / size_of(run.dtype) / run.size, 1);
}

/// Reduces `run.size` blocks of `elements`, in rank order. The first begins at `first`, each next one
/// `stride` bytes behind the one before.
void reduce_blocks(const MpiRun& run, std::byte* into, const std::byte* first, std::size_t stride,
                   std::size_t elements, const kernels::Scale& result) {
  std::vector<const void*> operands;
  for (std::size_t rank = 0; rank < run.size; ++rank) operands.push_back(first + rank * stride);
  void* const output = into;
  kernels::reduce_many(run.dtype, run.op, {&output, 1}, operands, elements, result);
}

/// Sends the blocks in `out` and receives this rank's block from every rank into `in`. Reduces them into the
/// first block of `in`.
Status exchange_and_reduce(const MpiRun& run, const std::byte* out, std::byte* in,
                           const kernels::Scale& result) {
  MpiStaging& staging = run.staging;
  const int own = staging.send_counts[run.rank];
  staging.receive_counts.assign(run.size, own);
  stack(staging.receive_counts, staging.receive_offsets);
  DABKE_RETURN_IF_ERROR(run.comm.start_alltoall(out, staging.send_counts, staging.send_offsets, in,
                                                staging.receive_counts, staging.receive_offsets));
  DABKE_RETURN_IF_ERROR(finish(run));
  const auto bytes = static_cast<std::size_t>(own);
  reduce_blocks(run, in, in, bytes, bytes / size_of(run.dtype), result);
  return {};
}

/// Copies elements [begin, begin + count) of the row to `into`.
void stage(const MpiRun& run, const InPieces& row, std::size_t begin, std::size_t count, double factor,
           std::byte* into) {
  row.each(begin, count, [&](const std::byte* data, std::size_t elements, std::size_t at) {
    kernels::scale(run.dtype, into + at * size_of(run.dtype), data, elements, factor);
  });
}

/// Gathers `bytes` of every rank, in rank order, from `own` into `all`.
Status gather_equal(const MpiRun& run, const std::byte* own, std::size_t bytes, std::byte* all) {
  MpiStaging& staging = run.staging;
  staging.receive_counts.assign(run.size, static_cast<int>(bytes));
  stack(staging.receive_counts, staging.receive_offsets);
  DABKE_RETURN_IF_ERROR(run.comm.start_allgather(own, static_cast<int>(bytes), all, staging.receive_counts,
                                                 staging.receive_offsets));
  return finish(run);
}

/// Returns an error if a rank brings another batch. Each rank's part of `all` begins with its mark.
Status check_marks(const MpiRun& run, const std::byte* all, std::size_t stride) {
  for (std::size_t rank = 0; rank < run.size; ++rank) {
    BatchMark theirs;
    std::memcpy(&theirs, all + rank * stride, sizeof theirs);
    if (theirs != run.mark) return batches_differ(fmt::format("rank {}", run.ranks[rank]), theirs, run.mark);
  }
  return {};
}

/// Waits until all ranks have arrived, and checks that they bring the same batch.
Status meet(const MpiRun& run) {
  DABKE_ASSIGN_OR_RETURN(std::byte* const memory,
                         run.staging.memory.reserve((run.size + 1) * sizeof run.mark));
  std::memcpy(memory, &run.mark, sizeof run.mark);
  DABKE_RETURN_IF_ERROR(gather_equal(run, memory, sizeof run.mark, memory + sizeof run.mark));
  return check_marks(run, memory + sizeof run.mark, sizeof run.mark);
}

/// Sets the send counts for `count` elements: one slice for each rank.
void slice(const MpiRun& run, std::size_t count) {
  MpiStaging& staging = run.staging;
  staging.send_counts.clear();
  for (std::size_t rank = 0; rank < run.size; ++rank) {
    const std::size_t elements = count / run.size + (rank < count % run.size ? 1 : 0);
    staging.send_counts.push_back(static_cast<int>(elements * size_of(run.dtype)));
  }
  stack(staging.send_counts, staging.send_offsets);
}

/// For few bytes: every rank gets all elements, in one step.
Status allreduce_small(const MpiRun& run, const InPieces& in, double prescale, const OutPieces& out,
                       const kernels::Scale& result) {
  constexpr std::size_t kMarkBytes = sizeof run.mark;
  const std::size_t bytes = kMarkBytes + in.elements() * size_of(run.dtype);
  DABKE_ASSIGN_OR_RETURN(std::byte* const memory, run.staging.memory.reserve((run.size + 1) * bytes));
  std::byte* const all = memory + bytes;
  std::memcpy(memory, &run.mark, kMarkBytes);
  stage(run, in, 0, in.elements(), prescale, memory + kMarkBytes);
  DABKE_RETURN_IF_ERROR(gather_equal(run, memory, bytes, all));
  DABKE_RETURN_IF_ERROR(check_marks(run, all, bytes));
  out.each(0, in.elements(), [&](std::byte* data, std::size_t elements, std::size_t at) {
    reduce_blocks(run, data, all + kMarkBytes + at * size_of(run.dtype), bytes, elements, result);
  });
  return {};
}

}  // namespace

Status mpi_allreduce(const MpiRun& run, const InPieces& in, double prescale, const OutPieces& out,
                     const kernels::Scale& result) {
  constexpr std::size_t kSmallBytes = 8192;
  const std::size_t width = size_of(run.dtype);
  const std::size_t elements = in.elements();
  if (elements * width * run.size <= std::min(kSmallBytes, run.round_bytes))
    return allreduce_small(run, in, prescale, out, result);
  DABKE_RETURN_IF_ERROR(meet(run));
  MpiStaging& staging = run.staging;
  const std::size_t most = block_elements(run) * run.size;
  const std::size_t room = fusion_padded((most + run.size) * width);
  DABKE_ASSIGN_OR_RETURN(std::byte* const mine, staging.memory.reserve(2 * room));
  std::byte* const others = mine + room;
  for (std::size_t first = 0; first < elements; first += most) {
    const std::size_t count = std::min(most, elements - first);
    slice(run, count);
    stage(run, in, first, count, prescale, mine);
    DABKE_RETURN_IF_ERROR(exchange_and_reduce(run, mine, others, result));
    DABKE_RETURN_IF_ERROR(run.comm.start_allgather(others, staging.send_counts[run.rank], mine,
                                                   staging.send_counts, staging.send_offsets));
    DABKE_RETURN_IF_ERROR(finish(run));
    out.each(first, count, [&](std::byte* data, std::size_t length, std::size_t at) {
      std::memcpy(data, mine + at * width, length * width);
    });
  }
  return {};
}

Status mpi_reducescatter(const MpiRun& run, const std::byte* send, std::span<const std::size_t> counts,
                         std::byte* data, const kernels::Scale& result) {
  DABKE_RETURN_IF_ERROR(meet(run));
  const std::size_t width = size_of(run.dtype);
  const std::size_t most = block_elements(run);
  const std::size_t longest = *std::ranges::max_element(counts);
  const std::vector<std::size_t> starts = starts_of(counts);
  MpiStaging& staging = run.staging;
  const std::size_t room = fusion_padded(std::min(most, longest) * run.size * width);
  DABKE_ASSIGN_OR_RETURN(std::byte* const out, staging.memory.reserve(2 * room));
  std::byte* const in = out + room;
  for (std::size_t first = 0; first < longest; first += most) {
    staging.send_counts.clear();
    for (const std::size_t count : counts) staging.send_counts.push_back(part(run, count, first, most));
    stack(staging.send_counts, staging.send_offsets);
    for (std::size_t rank = 0; rank < run.size; ++rank) {
      copy_bytes(out + staging.send_offsets[rank], send + (starts[rank] + first) * width,
                 static_cast<std::size_t>(staging.send_counts[rank]));
    }
    DABKE_RETURN_IF_ERROR(exchange_and_reduce(run, out, in, result));
    copy_bytes(data + first * width, in, static_cast<std::size_t>(staging.send_counts[run.rank]));
  }
  return {};
}

namespace {

/// Starts to gather `receive_counts` of each rank, from `out` into `in`.
Status start_gathering(const MpiRun& run, std::byte* out, std::byte* in) {
  const MpiStaging& staging = run.staging;
  const std::vector<int>& counts = staging.receive_counts;
  const auto first = std::ranges::find_if(counts, [](int count) { return count != 0; });
  const bool is_only =
      first != counts.end() && std::all_of(first + 1, counts.end(), [](int count) { return count == 0; });
  // MPICH's allgather takes six times as long as its broadcast if only one rank has data.
  if (!is_only) return run.comm.start_allgather(out, counts[run.rank], in, counts, staging.receive_offsets);
  const auto root = static_cast<std::size_t>(first - counts.begin());
  return run.comm.start_broadcast(root == run.rank ? out : in, *first, static_cast<int>(root));
}

}  // namespace

Status mpi_allgather(const MpiRun& run, std::byte* data, std::span<const std::size_t> counts) {
  DABKE_RETURN_IF_ERROR(meet(run));
  const std::size_t width = size_of(run.dtype);
  const std::size_t most = block_elements(run);
  const std::size_t longest = *std::ranges::max_element(counts);
  const std::vector<std::size_t> starts = starts_of(counts);
  MpiStaging& staging = run.staging;
  const std::size_t room = fusion_padded(std::min(most, longest) * width);
  DABKE_ASSIGN_OR_RETURN(std::byte* const out, staging.memory.reserve((run.size + 1) * room));
  std::byte* const in = out + room;
  for (std::size_t first = 0; first < longest; first += most) {
    staging.receive_counts.clear();
    for (const std::size_t count : counts) staging.receive_counts.push_back(part(run, count, first, most));
    stack(staging.receive_counts, staging.receive_offsets);
    copy_bytes(out, data + (starts[run.rank] + first) * width,
               static_cast<std::size_t>(staging.receive_counts[run.rank]));
    DABKE_RETURN_IF_ERROR(start_gathering(run, out, in));
    DABKE_RETURN_IF_ERROR(finish(run));
    for (std::size_t rank = 0; rank < run.size; ++rank) {
      if (rank == run.rank) continue;
      copy_bytes(data + (starts[rank] + first) * width, in + staging.receive_offsets[rank],
                 static_cast<std::size_t>(staging.receive_counts[rank]));
    }
  }
  return {};
}

Status mpi_broadcast(const MpiRun& run, std::byte* data, std::size_t elements, int root) {
  DABKE_RETURN_IF_ERROR(meet(run));
  const std::size_t bytes = elements * size_of(run.dtype);
  DABKE_ASSIGN_OR_RETURN(std::byte* const memory,
                         run.staging.memory.reserve(std::min(bytes, run.round_bytes)));
  const bool sends = static_cast<std::size_t>(root) == run.rank;
  for (std::size_t first = 0; first < bytes; first += run.round_bytes) {
    const std::size_t now = std::min(run.round_bytes, bytes - first);
    if (sends) copy_bytes(memory, data + first, now);
    DABKE_RETURN_IF_ERROR(run.comm.start_broadcast(memory, static_cast<int>(now), root));
    DABKE_RETURN_IF_ERROR(finish(run));
    if (!sends) copy_bytes(data + first, memory, now);
  }
  return {};
}

namespace {

/// Waits until all ranks have arrived, and checks that they bring the same batch. Returns the largest of the
/// ranks' values.
Result<std::size_t> agree_on_largest(const MpiRun& run, std::size_t own) {
  struct Part {
    BatchMark mark;
    std::size_t value;
  };
  const Part mine{run.mark, own};
  DABKE_ASSIGN_OR_RETURN(std::byte* const memory, run.staging.memory.reserve((run.size + 1) * sizeof mine));
  std::memcpy(memory, &mine, sizeof mine);
  DABKE_RETURN_IF_ERROR(gather_equal(run, memory, sizeof mine, memory + sizeof mine));
  DABKE_RETURN_IF_ERROR(check_marks(run, memory + sizeof mine, sizeof mine));
  for (std::size_t rank = 0; rank < run.size; ++rank) {
    Part theirs{};
    std::memcpy(&theirs, memory + (rank + 1) * sizeof theirs, sizeof theirs);
    own = std::max(own, theirs.value);
  }
  return own;
}

}  // namespace

Status mpi_alltoall(const MpiRun& run, const std::byte* send, std::span<const std::size_t> send_counts,
                    std::byte* data, std::span<const std::size_t> receive_counts) {
  const std::size_t width = size_of(run.dtype);
  const std::size_t most = block_elements(run);
  // All ranks must make equally many rounds, and no rank has the counts between two others.
  DABKE_ASSIGN_OR_RETURN(const std::size_t longest,
                         agree_on_largest(run, *std::ranges::max_element(send_counts)));
  const std::vector<std::size_t> send_starts = starts_of(send_counts);
  const std::vector<std::size_t> receive_starts = starts_of(receive_counts);
  MpiStaging& staging = run.staging;
  const std::size_t room = fusion_padded(std::min(most, longest) * run.size * width);
  DABKE_ASSIGN_OR_RETURN(std::byte* const out, staging.memory.reserve(2 * room));
  std::byte* const in = out + room;
  for (std::size_t first = 0; first < longest; first += most) {
    staging.send_counts.clear();
    staging.receive_counts.clear();
    for (const std::size_t count : send_counts) staging.send_counts.push_back(part(run, count, first, most));
    for (const std::size_t count : receive_counts)
      staging.receive_counts.push_back(part(run, count, first, most));
    stack(staging.send_counts, staging.send_offsets);
    stack(staging.receive_counts, staging.receive_offsets);
    for (std::size_t rank = 0; rank < run.size; ++rank) {
      copy_bytes(out + staging.send_offsets[rank], send + (send_starts[rank] + first) * width,
                 static_cast<std::size_t>(staging.send_counts[rank]));
    }
    DABKE_RETURN_IF_ERROR(run.comm.start_alltoall(out, staging.send_counts, staging.send_offsets, in,
                                                  staging.receive_counts, staging.receive_offsets));
    DABKE_RETURN_IF_ERROR(finish(run));
    for (std::size_t rank = 0; rank < run.size; ++rank) {
      copy_bytes(data + (receive_starts[rank] + first) * width, in + staging.receive_offsets[rank],
                 static_cast<std::size_t>(staging.receive_counts[rank]));
    }
  }
  return {};
}

Status mpi_barrier(const MpiRun& run) { return meet(run); }

Status mpi_allreduce_on_device(const MpiRun& run, std::byte* data, std::size_t elements,
                               const kernels::Scale& result) {
  DABKE_RETURN_IF_ERROR(meet(run));
  const std::size_t width = size_of(run.dtype);
  const std::size_t most = block_elements(run) * run.size;
  DABKE_ASSIGN_OR_RETURN(std::byte* const others,
                         run.staging.memory.reserve(fusion_padded((most + run.size) * width)));
  const MpiStaging& staging = run.staging;
  for (std::size_t first = 0; first < elements; first += most) {
    std::byte* const round = data + first * width;
    slice(run, std::min(most, elements - first));
    DABKE_RETURN_IF_ERROR(exchange_and_reduce(run, round, others, result));
    DABKE_RETURN_IF_ERROR(run.comm.start_allgather(others, staging.send_counts[run.rank], round,
                                                   staging.send_counts, staging.send_offsets));
    DABKE_RETURN_IF_ERROR(finish(run));
  }
  return {};
}

Status mpi_broadcast_on_device(const MpiRun& run, std::byte* data, std::size_t elements, int root) {
  DABKE_RETURN_IF_ERROR(meet(run));
  const std::size_t bytes = elements * size_of(run.dtype);
  for (std::size_t first = 0; first < bytes; first += run.round_bytes) {
    const auto now = static_cast<int>(std::min(run.round_bytes, bytes - first));
    DABKE_RETURN_IF_ERROR(run.comm.start_broadcast(data + first, now, root));
    DABKE_RETURN_IF_ERROR(finish(run));
  }
  return {};
}

}  // namespace dabke::ops

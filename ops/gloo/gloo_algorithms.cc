#include "ops/gloo/gloo_algorithms.h"

#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "runtime/kernels/kernels.h"

namespace dabke::ops {
namespace {

using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

std::size_t own_rank(const GlooRun& run) { return static_cast<std::size_t>(run.context->rank); }
std::size_t rank_count(const GlooRun& run) { return static_cast<std::size_t>(run.context->size); }

/// Drops `const`, because Gloo has no buffers for sending only. Nothing is received into a buffer on `const`
/// memory.
Buffer buffer_on(const GlooRun& run, const std::byte* memory, std::size_t bytes) {
  return run.context->createUnboundBuffer(const_cast<std::byte*>(memory), bytes);
}

/// Calls `visitor` with an unsigned integer type of the dtype's width: Gloo needs only an element's size.
template <class Visitor>
void with_width(DType dtype, Visitor visitor) {
  switch (size_of(dtype)) {
    case 1: return visitor(std::type_identity<std::uint8_t>{});
    case 2: return visitor(std::type_identity<std::uint16_t>{});
    case 4: return visitor(std::type_identity<std::uint32_t>{});
    default: return visitor(std::type_identity<std::uint64_t>{});
  }
}

void allreduce_by_gloo(const GlooRun& run, gloo::AllreduceOptions::Algorithm algorithm, std::byte* data,
                       std::size_t elements) {
  gloo::AllreduceOptions options(run.context);
  options.setAlgorithm(algorithm);
  options.setTag(run.tag);
  options.setReduceFunction(
      [dtype = run.dtype, op = run.op](void* into, const void* a, const void* b, std::size_t n) {
        kernels::reduce(dtype, op, into, a, b, n);
      });
  with_width(run.dtype, [&]<class T>(std::type_identity<T>) {
    options.setOutput(reinterpret_cast<T*>(data), elements);
  });
  gloo::allreduce(options);
}

struct Block {
  std::size_t offset = 0;  // bytes into a buffer
  std::size_t bytes = 0;
};

/// Posts a receive of `block_of(peer)` from every peer, unless that block is empty. The peer that sends to
/// this rank first comes first. Returns the number of receives to wait for.
template <class BlockOf>
std::size_t receive_from_all(const GlooRun& run, const Buffer& into, BlockOf block_of) {
  const std::size_t size = rank_count(run);
  std::size_t receives = 0;
  for (std::size_t step = 1; step < size; ++step) {
    const std::size_t peer = (own_rank(run) + size - step) % size;
    const Block block = block_of(peer);
    if (block.bytes == 0) continue;
    into->recv(static_cast<int>(peer), run.tag, block.offset, block.bytes);
    ++receives;
  }
  return receives;
}

template <class BlockOf>
std::size_t send_to_all(const GlooRun& run, const Buffer& from, BlockOf block_of) {
  const std::size_t size = rank_count(run);
  std::size_t sends = 0;
  for (std::size_t step = 1; step < size; ++step) {
    const std::size_t peer = (own_rank(run) + step) % size;
    const Block block = block_of(peer);
    if (block.bytes == 0) continue;
    from->send(static_cast<int>(peer), run.tag, block.offset, block.bytes);
    ++sends;
  }
  return sends;
}

void wait_for_receives(const Buffer& into, std::size_t receives) {
  for (; receives > 0; --receives) into->waitRecv();
}

void wait_for_sends(const Buffer& from, std::size_t sends) {
  for (; sends > 0; --sends) from->waitSend();
}

Status allreduce_direct(const GlooRun& run, std::byte* data, std::size_t elements, FusionBuffer& scratch) {
  const std::size_t bytes = elements * size_of(run.dtype);
  const std::size_t stride = fusion_padded(bytes);
  const std::size_t rank = own_rank(run);
  const std::size_t size = rank_count(run);
  DABKE_ASSIGN_OR_RETURN(std::byte* const all, scratch.reserve(stride * size));
  const Buffer in = buffer_on(run, all, stride * size);
  const Buffer out = buffer_on(run, data, bytes);
  const std::size_t receives = receive_from_all(run, in, [&](std::size_t peer) {
    return Block{peer * stride, bytes};
  });
  const std::size_t sends = send_to_all(run, out, [&](std::size_t) { return Block{0, bytes}; });
  std::memcpy(all + rank * stride, data, bytes);
  wait_for_receives(in, receives);
  wait_for_sends(out, sends);
  std::vector<const void*> operands;
  for (std::size_t set_rank = 0; set_rank < size; ++set_rank) operands.push_back(all + set_rank * stride);
  void* const sum = data;
  kernels::reduce_many(run.dtype, run.op, {&sum, 1}, operands, elements, run.result);
  return Status::ok();
}

/// A direct reduce-scatter followed by a direct allgather. It moves as many bytes as a ring, in two steps
/// instead of 2(n - 1).
Status allreduce_slices(const GlooRun& run, std::byte* data, std::size_t elements, FusionBuffer& scratch) {
  const std::size_t width = size_of(run.dtype);
  const std::size_t rank = own_rank(run);
  const std::size_t size = rank_count(run);
  const std::size_t round = std::min(kGlooRoundBytes / width, elements);
  const std::size_t stride = fusion_padded((round + size - 1) / size * width);
  DABKE_ASSIGN_OR_RETURN(std::byte* const memory, scratch.reserve(stride * size));
  const Buffer parts = buffer_on(run, memory, stride * size);  // this rank's slice, as each peer has it
  const Buffer all = buffer_on(run, data, elements * width);
  std::vector<const void*> operands(size);
  for (std::size_t first = 0; first < elements; first += round) {
    const std::size_t count = std::min(round, elements - first);
    const std::size_t slice = (count + size - 1) / size;
    const auto slice_of = [&](std::size_t set_rank) {
      const std::size_t begin = std::min(set_rank * slice, count);
      return Block{(first + begin) * width, (std::min(begin + slice, count) - begin) * width};
    };
    const Block own = slice_of(rank);

    std::size_t receives = receive_from_all(run, parts, [&](std::size_t peer) {
      return Block{peer * stride, own.bytes};
    });
    std::size_t sends = send_to_all(run, all, slice_of);
    wait_for_receives(parts, receives);
    void* const sum = data + own.offset;
    for (std::size_t set_rank = 0; set_rank < size; ++set_rank)
      operands[set_rank] = set_rank == rank ? sum : memory + set_rank * stride;
    kernels::reduce_many(run.dtype, run.op, {&sum, 1}, operands, own.bytes / width, run.result);

    // A peer that sends a slice has already read this rank's part of it.
    receives = receive_from_all(run, all, slice_of);
    sends += send_to_all(run, all, [&](std::size_t) { return own; });
    wait_for_receives(all, receives);
    wait_for_sends(all, sends);
  }
  return Status::ok();
}

// Microseconds for one allreduce of float32: ranks on one host over loopback, two cores, no other load.
//
//              2 ranks                     4 ranks
//   bytes      direct   bcube    ring      direct   bcube    ring
//   1 KiB          42      81     109         153     257     571
//   64 KiB         67      92     118         235     255     580
//   256 KiB       118     152     168         515     440     671
//   1 MiB         475     406     372        2310     958    1085
//   4 MiB        1887    1743    1693       10749    4294    3330
//   64 MiB      34876   45899   27622      178142  123615   62517
//
// The same on another such machine:
//
//              2 ranks             4 ranks                     8 ranks
//   bytes      bcube/ring slices   direct   bcube/ring slices  direct   bcube/ring slices
//   64 KiB                             830                1300                6800    6000
//   128 KiB                                     3100      1600                8600    6000
//   512 KiB       260      248                  3900      2300               16100    6700
//   2 MiB        1330     1270                  7400      4900               19700   11900
//   8 MiB        6070     5370                 18500     16100               42400   37400
//   32 MiB      23300    25600                 79400     70600              177000  144900
//
// 3 ranks behave as 2. With 16 and 32 ranks, slices took 0.4 to 0.9 of the time. The cost of direct grows
// with the bytes that a rank sends to all peers together, so the choice depends on that sum.
constexpr std::size_t kMostDirect = std::size_t{256} << 10;
constexpr std::size_t kMostBcube = std::size_t{3} << 20;
constexpr int kFewestForSlices = 4;

// The size of the pieces in which a slice is received while the piece before is reduced. Small enough for the
// cache.
constexpr std::size_t kSlicePieceBytes = 512 << 10;

}  // namespace

std::string_view name_of(GlooAlgorithm algorithm) {
  switch (algorithm) {
    case GlooAlgorithm::allreduce_direct: return "allreduce_direct";
    case GlooAlgorithm::allreduce_slices: return "allreduce_slices";
    case GlooAlgorithm::allreduce_bcube: return "allreduce_bcube";
    case GlooAlgorithm::allreduce_ring: return "allreduce_ring";
    case GlooAlgorithm::allgather: return "allgather";
    case GlooAlgorithm::broadcast: return "broadcast";
    case GlooAlgorithm::alltoall: return "alltoall";
    case GlooAlgorithm::reducescatter: return "reducescatter";
    case GlooAlgorithm::barrier: return "barrier";
  }
  return "unknown";
}

GlooAlgorithm choose_algorithm(CollectiveKind kind, std::size_t bytes, int ranks, bool all_at_once) {
  switch (kind) {
    case CollectiveKind::allgather: return GlooAlgorithm::allgather;
    case CollectiveKind::broadcast: return GlooAlgorithm::broadcast;
    case CollectiveKind::alltoall: return GlooAlgorithm::alltoall;
    case CollectiveKind::reducescatter: return GlooAlgorithm::reducescatter;
    case CollectiveKind::allreduce: break;
    default: return GlooAlgorithm::barrier;
  }
  const std::size_t to_all = bytes * static_cast<std::size_t>(ranks - 1);
  if (to_all <= kMostDirect) return GlooAlgorithm::allreduce_direct;
  if (ranks >= kFewestForSlices || all_at_once) return GlooAlgorithm::allreduce_slices;
  return to_all <= kMostBcube ? GlooAlgorithm::allreduce_bcube : GlooAlgorithm::allreduce_ring;
}

Status gloo_allreduce(const GlooRun& run, GlooAlgorithm algorithm, std::byte* data, std::size_t elements,
                      FusionBuffer& scratch) {
  switch (algorithm) {
    case GlooAlgorithm::allreduce_direct: return allreduce_direct(run, data, elements, scratch);
    case GlooAlgorithm::allreduce_slices: return allreduce_slices(run, data, elements, scratch);
    case GlooAlgorithm::allreduce_bcube:
      allreduce_by_gloo(run, gloo::AllreduceOptions::Algorithm::BCUBE, data, elements);
      break;
    default: allreduce_by_gloo(run, gloo::AllreduceOptions::Algorithm::RING, data, elements);
  }
  return Status::ok();
}

namespace {

/// Adds the elements of one rank after the other to this rank's own, and scales the result.
class PartialSums {
 public:
  /// If all ranks' elements are added at once, `memory` holds two pieces of the wide dtype, of `wide_bytes`
  /// each.
  PartialSums(const GlooRun& run, std::byte* memory, std::size_t wide_bytes)
      : run_(run), sum_(memory), next_(memory + wide_bytes) {}

  /// `step` is the number of peers whose elements have been added before.
  void add(std::size_t step, const std::byte* own, const std::byte* theirs, std::byte* into,
           std::size_t elements) {
    const bool is_last = step + 2 == rank_count(run_);
    if (run_.all_at_once) {
      if (step == 0) kernels::widen(run_.dtype, sum_, own, elements);
      kernels::widen(run_.dtype, next_, theirs, elements);
      kernels::reduce(kernels::wide_dtype(run_.dtype), run_.op, sum_, sum_, next_, elements);
      if (is_last) kernels::narrow(run_.dtype, into, sum_, elements, run_.result);
      return;
    }
    void* const output = into;
    const void* const terms[] = {step == 0 ? own : into, theirs};
    kernels::reduce_many(run_.dtype, run_.op, {&output, 1}, terms, elements,
                         is_last ? run_.result : kernels::Scale());
  }

 private:
  const GlooRun& run_;
  std::byte* const sum_;
  std::byte* const next_;
};

}  // namespace

Status gloo_reducescatter(const GlooRun& run, const std::byte* send, std::span<const std::size_t> counts,
                          std::byte* data, FusionBuffer& scratch) {
  const std::size_t width = size_of(run.dtype);
  const std::size_t rank = own_rank(run);
  const std::size_t size = rank_count(run);
  const std::size_t piece = std::max<std::size_t>(kSlicePieceBytes / width, 1);
  const std::size_t own = counts[rank];
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const auto start_of = [&](std::size_t block) {
    return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(block),
                           std::size_t{0});
  };

  // Data moves only when its receiver asks for it, so all blocks may be offered at once.
  const Buffer out = buffer_on(run, send, total * width);
  std::size_t sends = 0;
  for (std::size_t step = 1; step < size; ++step) {
    const std::size_t to = (rank + size - step) % size;
    for (std::size_t at = 0; at < counts[to]; at += piece, ++sends) {
      out->send(static_cast<int>(to), run.tag, (start_of(to) + at) * width,
                std::min(piece, counts[to] - at) * width);
    }
  }

  // Goes piece by piece, and for each piece from rank to rank. The next piece is received into one half of
  // the memory while the piece in the other half is reduced.
  const std::size_t half = fusion_padded(std::min(piece, own) * width);
  const std::size_t wide_width = size_of(kernels::wide_dtype(run.dtype));
  const std::size_t wide_bytes = run.all_at_once ? fusion_padded(std::min(piece, own) * wide_width) : 0;
  DABKE_ASSIGN_OR_RETURN(std::byte* const memory, scratch.reserve(2 * half + 2 * wide_bytes));
  PartialSums sums(run, memory + 2 * half, wide_bytes);
  const Buffer in[2] = {buffer_on(run, memory, half), buffer_on(run, memory + half, half)};
  const std::size_t receives = (own + piece - 1) / piece * (size - 1);
  const auto at_of = [&](std::size_t i) { return i / (size - 1) * piece; };
  const auto elements_of = [&](std::size_t i) { return std::min(piece, own - at_of(i)); };
  const auto receive = [&](std::size_t i) {
    const std::size_t from = (rank + 1 + i % (size - 1)) % size;
    in[i % 2]->recv(static_cast<int>(from), run.tag, 0, elements_of(i) * width);
  };
  if (receives > 0) receive(0);
  for (std::size_t i = 0; i < receives; ++i) {
    if (i + 1 < receives) receive(i + 1);
    in[i % 2]->waitRecv();
    const std::byte* const own_term = send + (start_of(rank) + at_of(i)) * width;
    sums.add(i % (size - 1), own_term, memory + i % 2 * half, data + at_of(i) * width, elements_of(i));
  }
  wait_for_sends(out, sends);
  return Status::ok();
}

void gloo_allgather(const GlooRun& run, std::byte* data, std::span<const std::size_t> counts) {
  std::vector<std::size_t> bytes;
  for (const std::size_t count : counts) bytes.push_back(count * size_of(run.dtype));
  gloo::AllgathervOptions options(run.context);
  options.setTag(run.tag);
  options.setOutput(reinterpret_cast<std::uint8_t*>(data), std::move(bytes));
  gloo::allgatherv(options);
}

void gloo_broadcast(const GlooRun& run, std::byte* data, std::size_t elements, int root) {
  gloo::BroadcastOptions options(run.context);
  options.setTag(run.tag);
  options.setRoot(root);
  options.setOutput(reinterpret_cast<std::uint8_t*>(data), elements * size_of(run.dtype));
  gloo::broadcast(options);
}

// Replaces Gloo's alltoall, which sends empty blocks too, and needs both buffers even if a rank sends or
// receives nothing.
void gloo_alltoall(const GlooRun& run, const std::byte* send, std::span<const std::size_t> send_counts,
                   std::byte* data, std::span<const std::size_t> receive_counts) {
  const std::size_t width = size_of(run.dtype);
  const std::size_t rank = own_rank(run);
  const std::size_t size = rank_count(run);
  std::vector<std::size_t> from(size + 1, 0);
  std::vector<std::size_t> to(size + 1, 0);
  for (std::size_t peer = 0; peer < size; ++peer) {
    to[peer + 1] = to[peer] + send_counts[peer] * width;
    from[peer + 1] = from[peer] + receive_counts[peer] * width;
  }
  const Buffer out = buffer_on(run, send, to[size]);
  const Buffer in = buffer_on(run, data, from[size]);
  const std::size_t receives = receive_from_all(run, in, [&](std::size_t peer) {
    return Block{from[peer], receive_counts[peer] * width};
  });
  const std::size_t sends = send_to_all(run, out, [&](std::size_t peer) {
    return Block{to[peer], send_counts[peer] * width};
  });
  if (send_counts[rank] != 0) std::memcpy(data + from[rank], send + to[rank], send_counts[rank] * width);
  wait_for_receives(in, receives);
  wait_for_sends(out, sends);
}

void gloo_barrier(const GlooRun& run) {
  gloo::BarrierOptions options(run.context);
  options.setTag(run.tag);
  gloo::barrier(options);
}

}  // namespace dabke::ops

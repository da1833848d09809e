// The collectives on one contiguous piece of memory: Gloo's algorithms, and our own over Gloo's unbound
// buffers.
//
// All of them are collective over the context's ranks, block until this rank's part is done, and throw Gloo's
// exceptions. Counts are in elements. runtime/backend/packer.h describes `data` and `send`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <gloo/context.h>

#include "runtime/backend/fusion_buffer.h"
#include "runtime/base/dtype.h"
#include "runtime/base/kinds.h"
#include "runtime/base/status.h"
#include "runtime/kernels/kernels.h"

namespace dabke::ops {

// Each algorithm has a context of its own in every process set.
enum class GlooAlgorithm : std::uint8_t {
  allreduce_direct,  // every rank sends all elements to every rank; summed in rank order
  allreduce_slices,  // every rank receives a slice from every rank, sums it in rank order and sends it to all
  allreduce_bcube,   // Gloo's
  allreduce_ring,    // Gloo's
  allgather,
  broadcast,
  alltoall,
  reducescatter,
  barrier,
};
/// Bytes of one round of allreduce_slices, over all ranks' slices together. In small rounds the ranks mostly
/// wait for one another: with 1 MiB, 4 ranks on 2 cores take 1.6 to 1.8 times as long.
inline constexpr std::size_t kGlooRoundBytes = std::size_t{16} << 20;

std::string_view name_of(GlooAlgorithm algorithm);

/// Returns the algorithm that runs a collective. Every rank chooses the same, because the choice depends only
/// on values that are equal on all ranks.
///   bytes          of an allreduce; ignored for other collectives
///   all_at_once    sums over some of the ranks must not be rounded, only the sum over all (needs_wide_sums)
GlooAlgorithm choose_algorithm(CollectiveKind kind, std::size_t bytes, int ranks, bool all_at_once = false);

/// True if the algorithm scales its result. Gloo's own algorithms do not scale.
constexpr bool scales(GlooAlgorithm algorithm) {
  return algorithm == GlooAlgorithm::allreduce_direct || algorithm == GlooAlgorithm::allreduce_slices ||
         algorithm == GlooAlgorithm::reducescatter;
}

struct GlooRun {
  const std::shared_ptr<gloo::Context>& context;
  std::uint32_t tag;
  DType dtype;
  ReduceOp op;
  kernels::Scale result;  // applied to a reduction, if the algorithm scales
  bool all_at_once;       // a sum over some of the ranks must not be rounded to the dtype
};

/// Bit-identical on all ranks. Each element is reduced once, on one rank, or by all ranks in the same order.
Status gloo_allreduce(const GlooRun& run, GlooAlgorithm algorithm, std::byte* data, std::size_t elements,
                      FusionBuffer& scratch);
/// The elements of rank r's slice are added in the order r, r+1, ..., r-1.
Status gloo_reducescatter(const GlooRun& run, const std::byte* send, std::span<const std::size_t> counts,
                          std::byte* data, FusionBuffer& scratch);
void gloo_allgather(const GlooRun& run, std::byte* data, std::span<const std::size_t> counts);
void gloo_broadcast(const GlooRun& run, std::byte* data, std::size_t elements, int root);
void gloo_alltoall(const GlooRun& run, const std::byte* send, std::span<const std::size_t> send_counts,
                   std::byte* data, std::span<const std::size_t> receive_counts);
void gloo_barrier(const GlooRun& run);

}  // namespace dabke::ops

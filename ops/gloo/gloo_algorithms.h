// The collectives on one contiguous piece of memory: Gloo's, and our own over its unbound buffers.
//
// All of them are collective over the context's ranks, block until this rank's part is done, and throw what
// Gloo throws. Counts are in elements; `data` and `send` are as runtime/backend/packer.h describes them.
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

// Each has a context of its own in every process set.
enum class GlooAlgorithm : std::uint8_t {
  allreduce_direct,  // everybody sends all to everybody; summed in rank order
  allreduce_slices,  // everybody gets a slice from everybody, sums it in rank order and sends it to all
  allreduce_bcube,   // Gloo's
  allreduce_ring,    // Gloo's
  allgather,
  broadcast,
  alltoall,
  reducescatter,
  barrier,
};
/// A round of allreduce_slices, all ranks' slices together. Small ones spend their time waiting for one
/// another: with 1 MiB, 4 ranks on 2 cores take 1.6 to 1.8 times as long.
inline constexpr std::size_t kGlooRoundBytes = std::size_t{16} << 20;

std::string_view name_of(GlooAlgorithm algorithm);

/// Which one runs a collective; the same on every rank, because it looks only at what is the same there.
///   bytes          of an allreduce; of no interest for the others
///   all_at_once    no sum of some ranks' elements may be made, only the sum of all (needs_wide_sums)
GlooAlgorithm choose_algorithm(CollectiveKind kind, std::size_t bytes, int ranks, bool all_at_once = false);

/// Whether what it leaves is scaled. Gloo's own algorithms know nothing of that.
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
  bool all_at_once;       // no sum of some ranks' elements is of the dtype
};

/// Bit-identical on all ranks: each element is reduced either once, on one rank, or by all ranks in the same
/// order.
Status gloo_allreduce(const GlooRun& run, GlooAlgorithm algorithm, std::byte* data, std::size_t elements,
                      FusionBuffer& scratch);
/// Rank r's slice is own, r+1, ..., r-1 in that order.
Status gloo_reducescatter(const GlooRun& run, const std::byte* send, std::span<const std::size_t> counts,
                          std::byte* data, FusionBuffer& scratch);
void gloo_allgather(const GlooRun& run, std::byte* data, std::span<const std::size_t> counts);
void gloo_broadcast(const GlooRun& run, std::byte* data, std::size_t elements, int root);
void gloo_alltoall(const GlooRun& run, const std::byte* send, std::span<const std::size_t> send_counts,
                   std::byte* data, std::span<const std::size_t> receive_counts);
void gloo_barrier(const GlooRun& run);

}  // namespace dabke::ops

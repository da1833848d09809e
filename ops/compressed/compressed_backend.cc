#include "ops/compressed/compressed_backend.h"

#include <algorithm>
#include <numeric>

#include "runtime/backend/host_layout.h"
#include "runtime/kernels/kernels.h"

namespace dabke::ops {
namespace {

constexpr std::size_t kWireBytes = 2;
/// The most bytes, over all ranks together, for which one exchange costs less than two of a part each.
constexpr std::size_t kAllAtOnceBytes = std::size_t{128} << 10;
/// The number of elements that are reduced at a time: few enough to stay in the cache.
constexpr std::size_t kPieceElements = 8192;

}  // namespace

bool CompressedBackend::can_run(const CallSpec& call, const Extent&) const {
  return runs_on_host(call, {CollectiveKind::allreduce}) && call.compression != Compression::none &&
         call.dtype == DType::f32;
}

bool CompressedBackend::can_serve(const ProcessSetInfo& set) const { return spans_hosts(set, world_.hosts); }

void CompressedBackend::idle() {
  packer_.drop();
  wire_.drop();
  sums_.drop();
}

Status CompressedBackend::run_batch(const Batch& batch) {
  Batch unscaled = batch;  // the postscale comes before the second rounding: the rounded sum might overflow
  unscaled.postscale = 1;
  unscaled.divisor = 1;
  DABKE_ASSIGN_OR_RETURN(const PackedBatch packed, packer_.pack(unscaled));
  auto* const data = reinterpret_cast<float*>(packed.data);
  const auto ranks = static_cast<std::size_t>(batch.process_set->size());
  if (packed.elements != 0) {
    const bool is_little = ranks * packed.elements * kWireBytes <= kAllAtOnceBytes;
    DABKE_RETURN_IF_ERROR(is_little ? exchange_all(batch, data, packed.elements)
                                    : exchange_slices(batch, data, packed.elements));
  }
  return packer_.unpack(unscaled);
}

Status CompressedBackend::exchange_all(const Batch& batch, float* data, std::size_t elements) {
  const auto ranks = static_cast<std::size_t>(batch.process_set->size());
  DABKE_ASSIGN_OR_RETURN(std::byte* const all, wire_.reserve((ranks + 1) * elements * kWireBytes));
  std::byte* const own = all + ranks * elements * kWireBytes;
  const DType wire = wire_dtype(batch.compression);
  kernels::convert(wire, own, DType::f32, data, elements);
  const std::vector<std::int64_t> counts(ranks, static_cast<std::int64_t>(elements));
  DABKE_RETURN_IF_ERROR(carry(batch, CollectiveKind::allgather, {own, all, counts.front(), counts, {}}));
  DABKE_RETURN_IF_ERROR(reduce(batch, all, elements, own));
  kernels::convert(DType::f32, data, wire, own, elements);
  return {};
}

Status CompressedBackend::exchange_slices(const Batch& batch, float* data, std::size_t elements) {
  const auto ranks = static_cast<std::size_t>(batch.process_set->size());
  const auto own = static_cast<std::size_t>(batch.process_set->rank);
  std::vector<std::int64_t> slices;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    slices.push_back(static_cast<std::int64_t>(elements / ranks + (rank < elements % ranks ? 1 : 0)));
  const auto mine = static_cast<std::size_t>(slices[own]);
  const std::size_t before = static_cast<std::size_t>(
      std::accumulate(slices.begin(), slices.begin() + batch.process_set->rank, std::int64_t{0}));
  const std::vector<std::int64_t> received(ranks, slices[own]);

  const std::size_t row_bytes = fusion_padded(elements * kWireBytes);
  DABKE_ASSIGN_OR_RETURN(std::byte* const row, wire_.reserve(row_bytes + ranks * mine * kWireBytes));
  std::byte* const from_all = row + row_bytes;
  const DType wire = wire_dtype(batch.compression);
  kernels::convert(wire, row, DType::f32, data, elements);
  DABKE_RETURN_IF_ERROR(carry(batch, CollectiveKind::alltoall,
                              {row, from_all, static_cast<std::int64_t>(elements), received, slices}));
  std::byte* const sum = row + before * kWireBytes;
  DABKE_RETURN_IF_ERROR(reduce(batch, from_all, mine, sum));
  DABKE_RETURN_IF_ERROR(carry(batch, CollectiveKind::allgather, {sum, row, slices[own], slices, {}}));
  kernels::convert(DType::f32, data, wire, row, elements);
  return {};
}

Status CompressedBackend::reduce(const Batch& batch, const std::byte* rounded, std::size_t elements,
                                 std::byte* into) {
  const auto ranks = static_cast<std::size_t>(batch.process_set->size());
  const DType wire = wire_dtype(batch.compression);
  DABKE_ASSIGN_OR_RETURN(std::byte* const memory, sums_.reserve(ranks * kPieceElements * sizeof(float)));
  std::vector<const void*> operands;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    operands.push_back(memory + rank * kPieceElements * sizeof(float));
  auto* const sum = reinterpret_cast<float*>(memory);
  void* const into_sum = sum;
  for (std::size_t at = 0; at < elements; at += kPieceElements) {
    const std::size_t count = std::min(kPieceElements, elements - at);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      kernels::convert(DType::f32, sum + rank * kPieceElements, wire,
                       rounded + (rank * elements + at) * kWireBytes, count);
    kernels::reduce_many(DType::f32, batch.op, {&into_sum, 1}, operands, count, batch.result_scale());
    kernels::convert(wire, into + at * kWireBytes, DType::f32, sum, count);
  }
  return {};
}

Status CompressedBackend::carry(const Batch& batch, CollectiveKind kind, BatchEntry entry) {
  Batch part;
  part.order = batch.order;
  part.kind = kind;
  part.dtype = wire_dtype(batch.compression);
  part.process_set = batch.process_set;
  part.deadline = batch.deadline;
  part.trace = batch.trace;
  part.entries.push_back(entry);
  return carriers_.run(part);
}

Result<std::unique_ptr<Backend>> open_compressed_backend(const BackendContext& context,
                                                         std::vector<Backend*> carriers) {
  if (context.world.size == 1) return std::unique_ptr<Backend>();
  return std::unique_ptr<Backend>(std::make_unique<CompressedBackend>(context.world, std::move(carriers)));
}

}  // namespace dabke::ops

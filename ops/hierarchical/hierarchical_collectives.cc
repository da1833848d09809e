#include "ops/hierarchical/hierarchical_collectives.h"

#include <numeric>

#include <fmt/format.h>

#include "runtime/base/bytes.h"

namespace dabke::ops {
namespace {

std::int64_t sum(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

HierarchicalRun::HierarchicalRun(const Batch& batch, const HostedSet& set, const RunPart& run,
                                 FusionBuffer& scratch, FusionBuffer& wide)
    : batch_(batch),
      set_(set),
      run_(run),
      scratch_(scratch),
      wide_(wide),
      element_bytes_(size_of(batch.dtype)) {}

Status HierarchicalRun::run() {
  switch (batch_.kind) {
    case CollectiveKind::allreduce: return needs_wide_sums(batch_) ? allreduce_wide() : in_slices();
    case CollectiveKind::broadcast: return in_slices();
    case CollectiveKind::barrier: return barrier();
    case CollectiveKind::allgather: return set_.layout.is_regular ? allgather() : run_(batch_);
    case CollectiveKind::reducescatter:
      if (!set_.layout.is_regular) return run_(batch_);
      return needs_wide_sums(batch_) ? reducescatter_wide() : reducescatter();
    default: return {Code::unsupported, fmt::format("hierarchical cannot run {}", name_of(batch_.kind))};
  }
}

std::vector<std::int64_t> HierarchicalRun::column(std::span<const std::int64_t> counts) const {
  std::vector<std::int64_t> out;
  for (const std::vector<int>& host : set_.layout.hosts)
    out.push_back(counts[static_cast<std::size_t>(host[set_.layout.own_index])]);
  return out;
}

Status HierarchicalRun::in_slices() const {
  const SlicedBatch slices(batch_, set_);
  DABKE_RETURN_IF_ERROR(run_part(slices.before()));
  DABKE_RETURN_IF_ERROR(run_part(slices.between()));
  return run_part(slices.after());
}

Result<Batch> HierarchicalRun::widened(const std::vector<std::int64_t>& output_elements) {
  const DType dtype = kernels::wide_dtype(batch_.dtype);
  const std::size_t width = size_of(dtype);
  std::int64_t elements = sum(output_elements);
  for (const BatchEntry& entry : batch_.entries) elements += entry.elements;
  DABKE_ASSIGN_OR_RETURN(std::byte * next, wide_.reserve(static_cast<std::size_t>(elements) * width));
  Batch wide = part_of(batch_, batch_.kind, *batch_.process_set);
  wide.dtype = dtype;
  wide.entries = batch_.entries;
  for (BatchEntry& entry : wide.entries) {
    const auto count = static_cast<std::size_t>(entry.elements);
    kernels::widen(batch_.dtype, next, entry.input, count, batch_.prescale);
    entry.input = entry.output = next;
    next += count * width;
  }
  for (std::size_t e = 0; e < output_elements.size(); ++e) {
    wide.entries[e].output = next;
    next += static_cast<std::size_t>(output_elements[e]) * width;
  }
  return wide;
}

Status HierarchicalRun::allreduce_wide() {
  DABKE_ASSIGN_OR_RETURN(const Batch wide, widened({}));
  const SlicedBatch sums(wide, set_);
  DABKE_RETURN_IF_ERROR(run_part(sums.before()));
  DABKE_RETURN_IF_ERROR(run_part(sums.between()));
  const SlicedBatch slices(batch_, sums);
  for (std::size_t e = 0; e < batch_.entries.size(); ++e) {
    kernels::narrow(batch_.dtype, slices.own_output(e), sums.own_output(e), to_size(sums.own_count(e)),
                    batch_.result_scale());
  }
  return run_part(slices.after());
}

Status HierarchicalRun::reducescatter_wide() {
  std::vector<std::int64_t> counts;
  for (const BatchEntry& entry : batch_.entries)
    counts.push_back(entry.receive_counts[static_cast<std::size_t>(batch_.process_set->rank)]);
  DABKE_ASSIGN_OR_RETURN(const Batch wide, widened(counts));
  DABKE_RETURN_IF_ERROR(HierarchicalRun(wide, set_, run_, scratch_, wide_).reducescatter());
  for (std::size_t e = 0; e < counts.size(); ++e)
    kernels::narrow(batch_.dtype, batch_.entries[e].output, wide.entries[e].output,
                    static_cast<std::size_t>(counts[e]), batch_.result_scale());
  return {};
}

Status HierarchicalRun::barrier() {
  if (!is_alone()) DABKE_RETURN_IF_ERROR(run_barrier(set_.inside));
  if (set_.layout.own_index == 0) DABKE_RETURN_IF_ERROR(run_barrier(set_.between));
  return is_alone() ? Status() : run_barrier(set_.inside);
}

Result<std::byte*> HierarchicalRun::reserve_columns() {
  std::int64_t elements = 0;
  for (const BatchEntry& entry : batch_.entries)
    elements += sum(columns_.emplace_back(column(entry.receive_counts)));
  return scratch_.reserve(bytes(elements));
}

Status HierarchicalRun::allgather() {
  const std::size_t per_host = set_.layout.most_size;
  DABKE_ASSIGN_OR_RETURN(std::byte * next, reserve_columns());
  Batch between = part_of(batch_, CollectiveKind::allgather, set_.between);
  Batch inside = part_of(batch_, CollectiveKind::allgather, set_.inside);
  for (std::size_t e = 0; e < batch_.entries.size(); ++e) {
    const BatchEntry& entry = batch_.entries[e];
    between.entries.push_back({entry.input, next, entry.elements, columns_[e], {}});
    auto* output = bytes_of(entry.output);
    for (std::size_t host = 0; host < columns_[e].size(); ++host) {
      const auto counts = entry.receive_counts.subspan(host * per_host, per_host);
      inside.entries.push_back({next, output, columns_[e][host], counts, {}});
      next += bytes(columns_[e][host]);
      if (output != nullptr) output += bytes(sum(counts));
    }
  }
  DABKE_RETURN_IF_ERROR(run_part(between));
  return run_part(inside);
}

Status HierarchicalRun::reducescatter() {
  const std::size_t per_host = set_.layout.most_size;
  DABKE_ASSIGN_OR_RETURN(std::byte * next, reserve_columns());
  Batch inside = part_of(batch_, CollectiveKind::reducescatter, set_.inside);
  Batch between = part_of(batch_, CollectiveKind::reducescatter, set_.between);
  inside.prescale = batch_.prescale;
  between.postscale = batch_.postscale;
  between.divisor = batch_.divisor;
  for (std::size_t e = 0; e < batch_.entries.size(); ++e) {
    const BatchEntry& entry = batch_.entries[e];
    between.entries.push_back({next, entry.output, sum(columns_[e]), columns_[e], {}});
    const auto* input = bytes_of(entry.input);
    for (std::size_t host = 0; host < columns_[e].size(); ++host) {
      const auto counts = entry.receive_counts.subspan(host * per_host, per_host);
      inside.entries.push_back({input, next, sum(counts), counts, {}});
      next += bytes(columns_[e][host]);
      if (input != nullptr) input += bytes(sum(counts));
    }
  }
  DABKE_RETURN_IF_ERROR(run_part(inside));
  return run_part(between);
}

}  // namespace dabke::ops

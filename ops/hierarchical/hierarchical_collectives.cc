#include "ops/hierarchical/hierarchical_collectives.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "runtime/base/bytes.h"

namespace dabke {
namespace {

/// A slice of fewer bytes saves less time between the hosts than handing it on costs inside.
constexpr std::size_t kLeastSliceBytes = std::size_t{32} << 10;

std::int64_t sum(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

HierarchicalRun::HierarchicalRun(const Batch& batch, const HostedSet& set, FusionBuffer& scratch,
                                 FusionBuffer& wide)
    : batch_(batch), set_(set), scratch_(scratch), wide_(wide), element_bytes_(size_of(batch.dtype)) {}

Status HierarchicalRun::run() {
  switch (batch_.kind) {
    case CollectiveKind::allreduce: return allreduce();
    case CollectiveKind::broadcast: return broadcast();
    case CollectiveKind::barrier: return barrier();
    case CollectiveKind::allgather: return set_.layout.is_regular ? allgather() : set_.run_part(batch_);
    case CollectiveKind::reducescatter:
      if (!set_.layout.is_regular) return set_.run_part(batch_);
      return needs_wide_sums(batch_) ? reducescatter_wide() : reducescatter();
    default: return {Code::unsupported, fmt::format("hierarchical cannot run {}", name_of(batch_.kind))};
  }
}

Batch HierarchicalRun::part(CollectiveKind kind, const ProcessSetInfo& set) const {
  Batch out;
  out.kind = kind;
  out.device_type = batch_.device_type;
  out.dtype = batch_.dtype;
  out.op = batch_.op;
  out.order = batch_.order;
  out.device_index = batch_.device_index;
  out.process_set = &set;
  out.deadline = batch_.deadline;
  out.trace = batch_.trace;
  return out;
}

void HierarchicalRun::cut() {
  std::int64_t total = 0;
  for (const BatchEntry& entry : batch_.entries) total += entry.elements;
  const std::size_t carriers =
      std::clamp<std::size_t>(bytes(total) / kLeastSliceBytes, 1, set_.layout.least_size);
  const auto line = static_cast<std::int64_t>(kFusionAlignment / element_bytes_);
  const auto count = static_cast<std::int64_t>(carriers);
  const std::int64_t slice =
      ((total + count - 1) / count + line - 1) / line * line;  // the last may be shorter
  std::int64_t begin = 0;                                      // the entry's, in the row
  for (const BatchEntry& entry : batch_.entries) {
    const std::int64_t end = begin + entry.elements;
    std::vector<std::int64_t>& counts = slices_.emplace_back(set_.inside.ranks.size(), 0);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t from = std::max(begin, i * slice);
      const std::int64_t to = std::min(end, i + 1 == count ? end : (i + 1) * slice);
      counts[static_cast<std::size_t>(i)] = std::max<std::int64_t>(to - from, 0);
    }
    begin = end;
  }
}

std::int64_t HierarchicalRun::own_begin(std::size_t e) const {
  return sum(std::span(slices_[e]).first(set_.layout.own_index));
}

std::vector<std::int64_t> HierarchicalRun::column(std::span<const std::int64_t> counts) const {
  std::vector<std::int64_t> out;
  for (const std::vector<int>& host : set_.layout.hosts)
    out.push_back(counts[static_cast<std::size_t>(host[set_.layout.own_index])]);
  return out;
}

Status HierarchicalRun::share_slices() const {
  if (is_alone()) return {};
  Batch gather = part(CollectiveKind::allgather, set_.inside);
  for (std::size_t e = 0; e < batch_.entries.size(); ++e)
    gather.entries.push_back({own_output(e), batch_.entries[e].output, own_count(e), slices_[e], {}});
  return run_part(gather);
}

Status HierarchicalRun::allreduce() {
  DABKE_RETURN_IF_ERROR(needs_wide_sums(batch_) ? sum_slices_wide() : sum_slices());
  return share_slices();
}

Status HierarchicalRun::sum_slices() {
  cut();
  if (!is_alone()) {
    Batch scatter = part(CollectiveKind::reducescatter, set_.inside);
    scatter.prescale = batch_.prescale;
    for (std::size_t e = 0; e < batch_.entries.size(); ++e) {
      const BatchEntry& entry = batch_.entries[e];
      scatter.entries.push_back({entry.input, own_output(e), entry.elements, slices_[e], {}});
    }
    DABKE_RETURN_IF_ERROR(run_part(scatter));
  }
  Batch between = part(CollectiveKind::allreduce, set_.between);
  between.prescale = is_alone() ? batch_.prescale : 1;
  between.postscale = batch_.postscale;
  between.divisor = batch_.divisor;
  between.compression = batch_.compression;
  for (std::size_t e = 0; e < batch_.entries.size(); ++e) {
    if (own_count(e) == 0) continue;
    const void* const input = is_alone() ? batch_.entries[e].input : own_output(e);
    between.entries.push_back({input, own_output(e), own_count(e), {}, {}});
  }
  return run_part(between);
}

Result<Batch> HierarchicalRun::widened(const std::vector<std::int64_t>& output_elements) {
  const DType dtype = kernels::wide_dtype(batch_.dtype);
  const std::size_t width = size_of(dtype);
  std::int64_t elements = sum(output_elements);
  for (const BatchEntry& entry : batch_.entries) elements += entry.elements;
  DABKE_ASSIGN_OR_RETURN(std::byte * next, wide_.reserve(static_cast<std::size_t>(elements) * width));
  Batch wide = part(batch_.kind, *batch_.process_set);
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

Status HierarchicalRun::sum_slices_wide() {
  DABKE_ASSIGN_OR_RETURN(const Batch wide, widened({}));
  HierarchicalRun run(wide, set_, scratch_, wide_);
  DABKE_RETURN_IF_ERROR(run.sum_slices());
  slices_ = run.slices_;
  for (std::size_t e = 0; e < batch_.entries.size(); ++e) {
    if (own_count(e) == 0) continue;
    kernels::narrow(batch_.dtype, own_output(e), run.own_output(e), static_cast<std::size_t>(own_count(e)),
                    batch_.result_scale());
  }
  return {};
}

Status HierarchicalRun::reducescatter_wide() {
  std::vector<std::int64_t> counts;
  for (const BatchEntry& entry : batch_.entries)
    counts.push_back(entry.receive_counts[static_cast<std::size_t>(batch_.process_set->rank)]);
  DABKE_ASSIGN_OR_RETURN(const Batch wide, widened(counts));
  DABKE_RETURN_IF_ERROR(HierarchicalRun(wide, set_, scratch_, wide_).reducescatter());
  for (std::size_t e = 0; e < counts.size(); ++e)
    kernels::narrow(batch_.dtype, batch_.entries[e].output, wide.entries[e].output,
                    static_cast<std::size_t>(counts[e]), batch_.result_scale());
  return {};
}

Status HierarchicalRun::broadcast() {
  cut();
  const auto [root_host, root_index] = set_.layout.find(batch_.root);
  const bool has_root = root_host == set_.layout.own_host;
  if (has_root && !is_alone()) {
    Batch first = part(CollectiveKind::broadcast, set_.inside);
    first.root = static_cast<int>(root_index);
    first.entries = batch_.entries;
    DABKE_RETURN_IF_ERROR(run_part(first));
  }
  // Only ranks of an index that all hosts have carry anything, so hosts count alike in their sets.
  Batch between = part(CollectiveKind::broadcast, set_.between);
  between.root = static_cast<int>(root_host);
  for (std::size_t e = 0; e < batch_.entries.size(); ++e) {
    if (own_count(e) == 0) continue;
    const void* const input = is_alone() ? batch_.entries[e].input : own_output(e);
    between.entries.push_back({input, own_output(e), own_count(e), {}, {}});
  }
  DABKE_RETURN_IF_ERROR(run_part(between));
  return has_root ? Status() : share_slices();
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
  Batch between = part(CollectiveKind::allgather, set_.between);
  Batch inside = part(CollectiveKind::allgather, set_.inside);
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
  Batch inside = part(CollectiveKind::reducescatter, set_.inside);
  Batch between = part(CollectiveKind::reducescatter, set_.between);
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

}  // namespace dabke

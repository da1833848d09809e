#include "runtime/backend/sliced_batch.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/bytes.h"
#include "runtime/base/settings/fusion_settings.h"

namespace dabke {
namespace {

/// A smaller slice saves less time between the hosts than it costs inside a host to hand it on.
constexpr std::size_t kLeastSliceBytes = std::size_t{32} << 10;

}  // namespace

Batch part_of(const Batch& batch, CollectiveKind kind, const ProcessSetInfo& set) {
  Batch out;
  out.kind = kind;
  out.device_type = batch.device_type;
  out.dtype = batch.dtype;
  out.op = batch.op;
  out.order = batch.order;
  out.device_index = batch.device_index;
  out.stream = batch.stream;
  out.process_set = &set;
  out.deadline = batch.deadline;
  out.trace = batch.trace;
  return out;
}

SlicedBatch::SlicedBatch(const Batch& batch, const HostedSet& set) : batch_(&batch), set_(&set) { cut(); }

SlicedBatch::SlicedBatch(const Batch& batch, const SlicedBatch& like)
    : batch_(&batch), set_(like.set_), slices_(like.slices_) {}

void SlicedBatch::cut() {
  const std::size_t width = size_of(batch_->dtype);
  std::int64_t total = 0;
  for (const BatchEntry& entry : batch_->entries) total += entry.elements;
  const std::size_t carriers =
      std::clamp<std::size_t>(to_size(total) * width / kLeastSliceBytes, 1, set_->layout.least_size);
  const auto line = static_cast<std::int64_t>(kFusionAlignment / width);
  const auto count = static_cast<std::int64_t>(carriers);
  const std::int64_t slice =
      ((total + count - 1) / count + line - 1) / line * line;  // the last slice may be shorter
  std::int64_t begin = 0;                                      // of the entry, in the row
  for (const BatchEntry& entry : batch_->entries) {
    const std::int64_t end = begin + entry.elements;
    std::vector<std::int64_t>& counts = slices_.emplace_back(set_->inside.ranks.size(), 0);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t from = std::max(begin, i * slice);
      const std::int64_t to = std::min(end, i + 1 == count ? end : (i + 1) * slice);
      counts[to_size(i)] = std::max<std::int64_t>(to - from, 0);
    }
    begin = end;
  }
}

std::byte* SlicedBatch::own_output(std::size_t e) const {
  const auto own = slices_[e].begin() + static_cast<std::ptrdiff_t>(set_->layout.own_index);
  const std::int64_t skipped = std::accumulate(slices_[e].begin(), own, std::int64_t{0});
  return bytes_of(batch_->entries[e].output) + to_size(skipped) * size_of(batch_->dtype);
}

bool SlicedBatch::has_root_here() const {
  return has_root(batch_->kind) && set_->layout.find(batch_->root).first == set_->layout.own_host;
}

Batch SlicedBatch::before() const {
  if (!reduces(batch_->kind)) {
    Batch first = part_of(*batch_, CollectiveKind::broadcast, set_->inside);
    if (is_alone() || !has_root_here()) return first;
    first.root = static_cast<int>(set_->layout.find(batch_->root).second);
    first.entries = batch_->entries;
    return first;
  }
  Batch scatter = part_of(*batch_, CollectiveKind::reducescatter, set_->inside);
  scatter.prescale = batch_->prescale;
  for (std::size_t e = 0; !is_alone() && e < batch_->entries.size(); ++e) {
    const BatchEntry& entry = batch_->entries[e];
    scatter.entries.push_back({entry.input, own_output(e), entry.elements, slices_[e], {}});
  }
  return scatter;
}

Batch SlicedBatch::between() const {
  Batch between = part_of(*batch_, batch_->kind, set_->between);
  if (reduces(batch_->kind)) {
    between.prescale = is_alone() ? batch_->prescale : 1;
    between.postscale = batch_->postscale;
    between.divisor = batch_->divisor;
    between.compression = batch_->compression;
  } else {
    // Only ranks whose index exists on every host carry data, so a host has the same number in all their
    // sets.
    between.root = static_cast<int>(set_->layout.find(batch_->root).first);
  }
  for (std::size_t e = 0; e < batch_->entries.size(); ++e) {
    if (own_count(e) == 0) continue;
    const void* const input = is_alone() ? batch_->entries[e].input : own_output(e);
    between.entries.push_back({input, own_output(e), own_count(e), {}, {}});
  }
  return between;
}

Batch SlicedBatch::after() const {
  Batch gather = part_of(*batch_, CollectiveKind::allgather, set_->inside);
  if (is_alone() || has_root_here()) return gather;
  for (std::size_t e = 0; e < batch_->entries.size(); ++e)
    gather.entries.push_back({own_output(e), batch_->entries[e].output, own_count(e), slices_[e], {}});
  return gather;
}

}  // namespace dabke

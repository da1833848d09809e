#include "runtime/backend/batch.h"

#include "runtime/base/text/counted.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace dabke {

std::uint64_t hash_of(const std::vector<Rank>& ranks) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const Rank rank : ranks) {
    for (int byte = 0; byte < 4; ++byte) {
      hash = (hash ^ (static_cast<std::uint32_t>(rank) >> (8 * byte) & 0xffu)) * 0x100000001b3u;
    }
  }
  return hash;
}

std::string describe_set(ProcessSetId set) {
  std::string_view part;
  if (set < 0) part = set == inside_hosts(whole_of(set)) ? " inside a host" : " between hosts";
  return fmt::format("process set {}{}", whole_of(set), part);
}

ExecutedCall executed(const CallSpec& asked, int contributors, const ProcessSetInfo& set) {
  ExecutedCall call{asked};
  if (reduces(call.kind) && call.op == ReduceOp::average) {
    call.op = ReduceOp::sum;
    call.divisor = static_cast<std::uint32_t>(contributors);
  }
  // A message is a broadcast among its two ranks. So every backend carries it.
  if (call.kind == CollectiveKind::send_recv) call.kind = CollectiveKind::broadcast;
  if (has_root(call.kind))
    call.root = static_cast<Rank>(std::ranges::find(set.ranks, asked.root) - set.ranks.begin());
  return call;
}

bool needs_wide_sums(const Batch& batch) {
  if (!reduces(batch.kind) || kernels::wide_dtype(batch.dtype) == batch.dtype) return false;
  if (is_floating(batch.dtype)) return rounds_partial_results(batch.dtype, batch.op);
  return batch.op == ReduceOp::sum && batch.divisor != 1;
}

namespace {

constexpr int kBytesBits = 40;
constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << kBytesBits) - 1;

}  // namespace

std::string BatchMark::to_string() const {
  const std::uint64_t tensors = contents >> kBytesBits;
  return fmt::format("{} of {} bytes in order {}", counted(tensors, "tensor"), contents & kMostBytes, order);
}

BatchMark mark_of(const Batch& batch) {
  return {batch.order, static_cast<std::uint64_t>(batch.entries.size()) << kBytesBits |
                           std::min<std::uint64_t>(extent_of(batch).size_bytes, kMostBytes)};
}

Status batches_differ(const std::string& other_rank, const BatchMark& theirs, const BatchMark& own) {
  return {Code::internal,
          fmt::format("the ranks are out of step: {} has {}, this rank has {}. No data was mixed up, but the "
                      "job cannot continue; this is a defect of Dabke: please report it",
                      other_rank, theirs.to_string(), own.to_string())};
}

Extent extent_of(const Batch& batch) {
  std::int64_t elements = 0;
  for (const BatchEntry& entry : batch.entries) {
    if (batch.kind == CollectiveKind::alltoall) break;
    elements +=
        batch.kind == CollectiveKind::allgather
            ? std::accumulate(entry.receive_counts.begin(), entry.receive_counts.end(), std::int64_t{0})
            : entry.elements;
  }
  return {static_cast<std::size_t>(elements) * size_of(batch.dtype), batch.process_set->size()};
}

bool is_empty(const Batch& batch) {
  const bool all_know = moves_data(batch.kind) && batch.kind != CollectiveKind::alltoall;
  return all_know && extent_of(batch).size_bytes == 0;
}

std::string describe(const Batch& batch) {
  const ProcessSetInfo& set = *batch.process_set;
  const std::size_t tensors = batch.entries.size();
  return fmt::format("{}{} (order {}), rank {} of {} in {}", name_of(batch.kind),
                     tensors == 0 ? "" : " of " + counted(tensors, "tensor"), batch.order, set.rank,
                     set.size(), describe_set(set.id));
}

}  // namespace dabke

#include "ops/shm/direct_run.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "runtime/base/bytes.h"
#include "runtime/kernels/kernels.h"

namespace dabke::ops {
namespace {

// The sizes of blocks. An abort is noticed between blocks. With a prescale, the scaled blocks of all ranks
// must together stay in a second-level cache. kBlocksBytes is usually half of that cache.
constexpr std::size_t kBlocksBytes = std::size_t{256} << 10;
constexpr std::size_t kMostBlock = std::size_t{32} << 10;
constexpr std::size_t kLeastBlock = std::size_t{4} << 10;
constexpr std::size_t kCopyBlock = std::size_t{1} << 20;

std::size_t block_bytes(std::size_t ranks) {
  return std::clamp(kBlocksBytes / ranks, kLeastBlock, kMostBlock);
}

}  // namespace

DirectRun::DirectRun(const Batch& batch, const SharedEntries& shared, const ShmSteps& steps,
                     ShmStores& stores)
    : batch_(batch),
      shared_(shared),
      steps_(steps),
      stores_(stores),
      ranks_(to_size(batch.process_set->size())),
      own_(to_size(batch.process_set->rank)),
      element_bytes_(size_of(batch.dtype)),
      block_(block_bytes(ranks_) / element_bytes_),
      outputs_(ranks_),
      operands_(ranks_) {
  if (reduces(batch.kind) && batch.prescale != 1) scaled_.resize(ranks_ * block_ * element_bytes_);
}

Status DirectRun::work() {
  switch (batch_.kind) {
    case CollectiveKind::allreduce: return allreduce();
    case CollectiveKind::allgather: return allgather();
    case CollectiveKind::broadcast: return broadcast();
    case CollectiveKind::reducescatter: return reducescatter();
    default: return {Code::unsupported, fmt::format("shm cannot run {} in place", name_of(batch_.kind))};
  }
}

Status DirectRun::allreduce() {
  std::size_t all = 0;
  for (const std::size_t entry : shared_.entries) all += to_size(batch_.entries[entry].elements);
  // Cuts the row of all tensors into slices. Each slice consists of whole cache lines if all tensors begin at
  // one.
  const std::size_t line = kCacheLine / element_bytes_;
  const std::size_t slice = (all / ranks_ + line) / line * line;
  const std::size_t begin = std::min(own_ * slice, all);
  const std::size_t end = std::min(begin + slice, all);
  std::size_t tensor = 0;  // the tensor's offset in the row
  for (std::size_t i = 0; i < shared_.entries.size() && tensor < end; ++i) {
    const std::size_t next = tensor + to_size(batch_.entries[shared_.entries[i]].elements);
    const std::size_t from = std::max(begin, tensor);
    const std::size_t to = std::min(end, next);
    if (from < to) {
      for (std::size_t set_rank = 0; set_rank < ranks_; ++set_rank)
        outputs_[set_rank] = shared_.output(set_rank, i);
      DABKE_RETURN_IF_ERROR(reduce(i, from - tensor, to - from));
    }
    tensor = next;
  }
  return {};
}

Status DirectRun::reducescatter() {
  outputs_.resize(1);
  for (std::size_t i = 0; i < shared_.entries.size(); ++i) {
    const BatchEntry& entry = batch_.entries[shared_.entries[i]];
    std::size_t skipped = 0;
    for (std::size_t set_rank = 0; set_rank < own_; ++set_rank)
      skipped += to_size(entry.receive_counts[set_rank]);
    auto* const out = static_cast<std::byte*>(entry.output);
    const std::size_t count = to_size(entry.receive_counts[own_]);
    // The output counts from the entry's begin.
    if (count == 0) continue;
    outputs_[0] = out - skipped * element_bytes_;
    DABKE_RETURN_IF_ERROR(reduce(i, skipped, count));
  }
  return {};
}

Status DirectRun::reduce(std::size_t i, std::size_t skipped, std::size_t count) {
  sums_.resize(outputs_.size());
  for (std::size_t done = 0; done < count; done += block_) {
    DABKE_RETURN_IF_ERROR(proceed());
    const std::size_t elements = std::min(block_, count - done);
    const std::size_t offset = (skipped + done) * element_bytes_;
    for (std::size_t set_rank = 0; set_rank < ranks_; ++set_rank) {
      operands_[set_rank] = shared_.input(set_rank, i) + offset;
      if (batch_.prescale == 1) continue;
      std::byte* const scaled = scaled_.data() + set_rank * block_ * element_bytes_;
      kernels::scale(batch_.dtype, scaled, operands_[set_rank], elements, batch_.prescale);
      operands_[set_rank] = scaled;
    }
    std::ranges::transform(outputs_, sums_.begin(), [offset](std::byte* output) { return output + offset; });
    stores_.work(elements * element_bytes_ * ranks_, [&] { reduce_block(elements); });
    stores_.note();
  }
  return {};
}

/// Reduces operands_ into sums_.
void DirectRun::reduce_block(std::size_t elements) {
  const std::span<void* const> into = sums_;
  const bool streams = stores_.streams() && into.size() > 1;
  const auto here = streams ? into.subspan(own_, 1) : into;
  kernels::reduce_many(batch_.dtype, batch_.op, here, operands_, elements, batch_.result_scale());
  for (std::size_t rank = 0; streams && rank < ranks_; ++rank) {
    if (rank != own_) stores_.copy(into[rank], here[0], elements * element_bytes_);
  }
}

Status DirectRun::copy(std::byte* to, const std::byte* from, std::size_t size_bytes) const {
  if (to == from) return {};
  for (std::size_t done = 0; done < size_bytes; done += kCopyBlock) {
    DABKE_RETURN_IF_ERROR(proceed());
    std::memcpy(to + done, from + done, std::min(kCopyBlock, size_bytes - done));
  }
  return {};
}

Status DirectRun::allgather() {
  for (std::size_t i = 0; i < shared_.entries.size(); ++i) {
    const BatchEntry& entry = batch_.entries[shared_.entries[i]];
    auto* to = static_cast<std::byte*>(entry.output);
    for (std::size_t set_rank = 0; set_rank < ranks_; ++set_rank) {
      const std::size_t bytes = to_size(entry.receive_counts[set_rank]) * element_bytes_;
      if (bytes == 0) continue;
      DABKE_RETURN_IF_ERROR(copy(to, shared_.input(set_rank, i), bytes));
      to += bytes;
    }
  }
  return {};
}

Status DirectRun::broadcast() {
  for (std::size_t i = 0; i < shared_.entries.size(); ++i) {
    const BatchEntry& entry = batch_.entries[shared_.entries[i]];
    DABKE_RETURN_IF_ERROR(copy(static_cast<std::byte*>(entry.output), shared_.input(to_size(batch_.root), i),
                               to_size(entry.elements) * element_bytes_));
  }
  return {};
}

}  // namespace dabke::ops

#include "ops/shm/shm_collectives.h"

#include <cstring>

#include <fmt/format.h>

#include "runtime/backend/packer.h"
#include "runtime/base/bytes.h"
#include "runtime/kernels/kernels.h"

namespace dabke::ops {
namespace {

// The bytes that are summed before they are streamed: they stay in the innermost cache meanwhile.
constexpr std::size_t kStreamedBlock = std::size_t{8} << 10;

std::size_t divided_up(std::size_t number, std::size_t by) { return (number + by - 1) / by; }

/// Returns how many elements of a row of `elements` a round handles that takes at most `most`.
std::size_t part(std::size_t elements, std::size_t round, std::size_t most) {
  const std::size_t begin = round * most;
  return begin >= elements ? 0 : std::min(most, elements - begin);
}

std::size_t count_of(std::span<const std::int64_t> counts, std::size_t set_rank) {
  return static_cast<std::size_t>(counts[set_rank]);
}

}  // namespace

ShmRun::ShmRun(const Batch& batch, ShmSteps& steps, ShmStores& stores, std::size_t stage_bytes,
               std::size_t small_bytes, std::vector<const void*>& operands)
    : batch_(batch),
      steps_(steps),
      stores_(stores),
      ranks_(static_cast<std::size_t>(batch.process_set->size())),
      own_(static_cast<std::size_t>(batch.process_set->rank)),
      element_bytes_(size_of(batch.dtype)),
      stage_bytes_(stage_bytes),
      small_bytes_(std::min(small_bytes, stage_bytes)),
      operands_(operands) {
  operands_.resize(ranks_);
}

Status ShmRun::run() {
  switch (batch_.kind) {
    case CollectiveKind::allreduce: return allreduce();
    case CollectiveKind::allgather: return allgather();
    case CollectiveKind::broadcast: return broadcast();
    case CollectiveKind::alltoall: return alltoall();
    case CollectiveKind::reducescatter: return reducescatter();
    case CollectiveKind::barrier: return barrier();
    default: return {Code::unsupported, fmt::format("shm cannot run {}", name_of(batch_.kind))};
  }
}

template <class Fill, class Take>
Status ShmRun::rounds(std::size_t count, std::size_t most_bytes, Fill fill, Take take) {
  for (std::size_t round = 0; round < count; ++round) {
    DABKE_ASSIGN_OR_RETURN(std::byte* const stage, steps_.free_stage(most_bytes));
    fill(round, stage);
    DABKE_RETURN_IF_ERROR(steps_.exchange());
    take(round);
    stores_.note();
    steps_.end_round();
  }
  steps_.publish();
  return {};
}

void ShmRun::put(std::byte* stage, const InPieces& from, std::size_t begin, std::size_t count) {
  stores_.work(bytes(count), [&] {
    from.each(begin, count, [&](const std::byte* data, std::size_t elements, std::size_t at) {
      if (!scales() || !reduces(batch_.kind)) return stores_.copy(stage + bytes(at), data, bytes(elements));
      kernels::scale(batch_.dtype, stage + bytes(at), data, elements, batch_.prescale);
    });
  });
}

void ShmRun::reduce_slice(std::byte* into, const InPieces& mine, std::size_t begin, std::size_t count,
                          std::size_t offset, const OutPieces* out) {
  mine.each(begin, count, [&](const std::byte* data, std::size_t elements, std::size_t at) {
    for (std::size_t set_rank = 0; set_rank < ranks_; ++set_rank)
      operands_[set_rank] = stage_of(set_rank) + offset + bytes(at);
    if (!scales()) operands_[own_] = data;
    void* sums[] = {into + bytes(at), nullptr};
    if (out) out->each(begin + at, elements, [&](std::byte* to, std::size_t, std::size_t) { sums[1] = to; });
    if (!out || !stores_.streams()) {
      kernels::reduce_many(batch_.dtype, batch_.op, {sums, out ? 2u : 1u}, operands_, elements,
                           batch_.result_scale());
      return;
    }
    const std::size_t block = kStreamedBlock / element_bytes_;
    for (std::size_t done = 0; done < elements; done += block) {
      const std::size_t now = std::min(block, elements - done);
      void* const sum = static_cast<std::byte*>(sums[1]) + bytes(done);
      kernels::reduce_many(batch_.dtype, batch_.op, {&sum, 1}, operands_, now, batch_.result_scale());
      stores_.copy(into + bytes(at + done), sum, bytes(now));
      for (const void*& operand : operands_) operand = static_cast<const std::byte*>(operand) + bytes(now);
    }
  });
}

void ShmRun::take(const OutPieces& into, std::size_t begin, std::size_t count, const std::byte* from) {
  stores_.work(bytes(count), [&] {
    into.each(begin, count, [&](std::byte* data, std::size_t elements, std::size_t at) {
      std::memcpy(data, from + bytes(at), bytes(elements));
    });
  });
}

Status ShmRun::allreduce() {
  InPieces in(element_bytes_);
  OutPieces out(element_bytes_);
  for (const BatchEntry& entry : batch_.entries) {
    in.add(static_cast<const std::byte*>(entry.input), static_cast<std::size_t>(entry.elements));
    out.add(static_cast<std::byte*>(entry.output), static_cast<std::size_t>(entry.elements));
  }
  if (in.elements() == 0) return {};
  return bytes(in.elements()) <= small_bytes_ ? allreduce_small(in, out) : allreduce_large(in, out);
}

Status ShmRun::allreduce_small(const InPieces& in, const OutPieces& out) {
  const std::size_t elements = in.elements();
  return rounds(
      1, bytes(elements), [&](std::size_t, std::byte* stage) { put(stage, in, 0, elements); },
      [&](std::size_t) {
        out.each(0, elements, [&](std::byte* data, std::size_t count, std::size_t at) {
          for (std::size_t set_rank = 0; set_rank < ranks_; ++set_rank)
            operands_[set_rank] = stage_of(set_rank) + bytes(at);
          void* const sum = data;
          kernels::reduce_many(batch_.dtype, batch_.op, {&sum, 1}, operands_, count, batch_.result_scale());
        });
      });
}

Status ShmRun::allreduce_large(const InPieces& in, const OutPieces& out) {
  const std::size_t elements = in.elements();
  const std::size_t line = kCacheLine / element_bytes_;
  const std::size_t most = stage_bytes_ / ranks_ / kCacheLine * line;  // for one slice
  for (std::size_t begin = 0; begin < elements;) {
    // The last round is cut into equal slices as well.
    const std::size_t slice = std::min(most, divided_up(divided_up(elements - begin, ranks_), line) * line);
    const auto start_of = [&](std::size_t set_rank) { return std::min(begin + set_rank * slice, elements); };
    const auto count_at = [&](std::size_t set_rank) { return start_of(set_rank + 1) - start_of(set_rank); };
    DABKE_ASSIGN_OR_RETURN(std::byte* const stage, steps_.free_stage(stage_bytes_));
    for (std::size_t set_rank = 0; set_rank < ranks_; ++set_rank) {
      if (set_rank != own_ || scales())
        put(stage + bytes(set_rank * slice), in, start_of(set_rank), count_at(set_rank));
    }
    DABKE_RETURN_IF_ERROR(steps_.exchange());
    std::byte* const sum = stage + bytes(own_ * slice);
    stores_.work(bytes(count_at(own_)),
                 [&] { reduce_slice(sum, in, start_of(own_), count_at(own_), bytes(own_ * slice), &out); });
    steps_.publish();
    DABKE_RETURN_IF_ERROR(steps_.wait_for_all());
    for (std::size_t set_rank = 0; set_rank < ranks_; ++set_rank) {
      if (set_rank == own_) continue;
      take(out, start_of(set_rank), count_at(set_rank), stage_of(set_rank) + bytes(set_rank * slice));
    }
    stores_.note();
    steps_.end_round();
    begin = start_of(ranks_);
  }
  steps_.publish();
  return {};
}

Status ShmRun::reducescatter() {
  // Block j is what rank j gets: its slice of every entry.
  std::vector<InPieces> blocks(ranks_, InPieces(element_bytes_));
  OutPieces out(element_bytes_);
  for (const BatchEntry& entry : batch_.entries) {
    const auto* data = static_cast<const std::byte*>(entry.input);
    for (std::size_t set_rank = 0; set_rank < ranks_; ++set_rank) {
      const std::size_t count = count_of(entry.receive_counts, set_rank);
      blocks[set_rank].add(data, count);
      if (count != 0) data += bytes(count);
    }
    out.add(static_cast<std::byte*>(entry.output), count_of(entry.receive_counts, own_));
  }
  const std::size_t most = stage_bytes_ / ranks_ / kCacheLine * kCacheLine / element_bytes_;
  std::size_t longest = 0;
  for (const InPieces& block : blocks) longest = std::max(longest, block.elements());
  return rounds(
      divided_up(longest, most), stage_bytes_,
      [&](std::size_t round, std::byte* stage) {
        for (std::size_t set_rank = 0; set_rank < ranks_; ++set_rank) {
          if (set_rank != own_ || scales())
            put(stage + bytes(set_rank * most), blocks[set_rank], round * most,
                part(blocks[set_rank].elements(), round, most));
        }
      },
      [&](std::size_t round) {
        const std::size_t begin = round * most;
        out.each(begin, part(blocks[own_].elements(), round, most),
                 [&](std::byte* data, std::size_t count, std::size_t at) {
                   stores_.work(bytes(count), [&] {
                     reduce_slice(data, blocks[own_], begin + at, count, bytes(own_ * most + at));
                   });
                 });
      });
}

Status ShmRun::gather(const std::vector<OutPieces>& blocks, const InPieces& mine) {
  const std::size_t most = stage_bytes_ / element_bytes_;
  std::size_t longest = 0;
  for (const OutPieces& block : blocks) longest = std::max(longest, block.elements());
  return rounds(
      divided_up(longest, most), bytes(std::min(longest, most)),
      [&](std::size_t round, std::byte* stage) {
        put(stage, mine, round * most, part(mine.elements(), round, most));
      },
      [&](std::size_t round) {
        for (std::size_t set_rank = 0; set_rank < ranks_; ++set_rank) {
          take(blocks[set_rank], round * most, part(blocks[set_rank].elements(), round, most),
               stage_of(set_rank));
        }
      });
}

Status ShmRun::allgather() {
  std::vector<OutPieces> blocks(ranks_, OutPieces(element_bytes_));
  InPieces mine(element_bytes_);
  for (const BatchEntry& entry : batch_.entries) {
    auto* data = static_cast<std::byte*>(entry.output);
    for (std::size_t set_rank = 0; set_rank < ranks_; ++set_rank) {
      const std::size_t count = count_of(entry.receive_counts, set_rank);
      blocks[set_rank].add(data, count);
      if (count != 0) data += bytes(count);
    }
    mine.add(static_cast<const std::byte*>(entry.input), static_cast<std::size_t>(entry.elements));
  }
  return gather(blocks, mine);
}

Status ShmRun::broadcast() {
  const auto root = static_cast<std::size_t>(batch_.root);
  std::vector<OutPieces> blocks(ranks_, OutPieces(element_bytes_));
  InPieces mine(element_bytes_);
  for (const BatchEntry& entry : batch_.entries) {
    const auto elements = static_cast<std::size_t>(entry.elements);
    if (own_ == root) mine.add(static_cast<const std::byte*>(entry.input), elements);
    blocks[root].add(static_cast<std::byte*>(entry.output), elements);
  }
  return gather(blocks, mine);
}

Status ShmRun::alltoall() {
  // Only two ranks have the counts between them. So each rank first publishes how many rounds it needs.
  const BatchEntry& entry = batch_.entries.front();  // never fused
  std::vector<InPieces> sends(ranks_, InPieces(element_bytes_));
  std::vector<OutPieces> receives(ranks_, OutPieces(element_bytes_));
  const auto* input = static_cast<const std::byte*>(entry.input);
  auto* output = static_cast<std::byte*>(entry.output);
  const std::size_t most = (stage_bytes_ - kCacheLine) / ranks_ / kCacheLine * kCacheLine / element_bytes_;
  std::uint64_t needed = 0;
  for (std::size_t set_rank = 0; set_rank < ranks_; ++set_rank) {
    const std::size_t sent = count_of(entry.send_counts, set_rank);
    const std::size_t received = count_of(entry.receive_counts, set_rank);
    sends[set_rank].add(input, sent);
    receives[set_rank].add(output, received);
    if (sent != 0) input += bytes(sent);
    if (received != 0) output += bytes(received);
    needed = std::max<std::uint64_t>(needed, divided_up(sent, most));
  }
  std::uint64_t all = 1;
  for (std::uint64_t round = 0; round < all; ++round) {
    DABKE_ASSIGN_OR_RETURN(std::byte* const stage, steps_.free_stage(stage_bytes_));
    std::memcpy(stage, &needed, sizeof needed);
    for (std::size_t set_rank = 0; set_rank < ranks_; ++set_rank) {
      put(stage + kCacheLine + bytes(set_rank * most), sends[set_rank], round * most,
          part(sends[set_rank].elements(), round, most));
    }
    DABKE_RETURN_IF_ERROR(steps_.exchange());
    for (std::size_t set_rank = 0; set_rank < ranks_; ++set_rank) {
      std::uint64_t theirs = 0;
      std::memcpy(&theirs, stage_of(set_rank), sizeof theirs);
      all = std::max(all, theirs);
      take(receives[set_rank], round * most, part(receives[set_rank].elements(), round, most),
           stage_of(set_rank) + kCacheLine + bytes(own_ * most));
    }
    stores_.note();
    steps_.end_round();
  }
  steps_.publish();
  return {};
}

Status ShmRun::barrier() {
  steps_.publish();
  return steps_.wait_for_all();
}

}  // namespace dabke::ops

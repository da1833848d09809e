#include "ops/shm/registered_tensors.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/bytes.h"

namespace dabke::ops {
namespace {

// The header holds the extent of the rank's memory; the table follows.
constexpr std::size_t kHeaderBytes = kCacheLine;
constexpr std::uint8_t kMostSkipped = 63;

std::size_t total_of(std::span<const std::int64_t> counts) {
  std::size_t sum = 0;
  for (const std::int64_t count : counts) sum += to_size(count);
  return sum;
}

/// The collectives that can run in registered memory (direct_run.h).
constexpr Collectives kInPlace{CollectiveKind::allreduce, CollectiveKind::allgather,
                               CollectiveKind::broadcast, CollectiveKind::reducescatter};

/// True if the other ranks read the input of the rank `set_rank`.
bool contributes(const Batch& batch, std::size_t set_rank) {
  return batch.kind != CollectiveKind::broadcast || set_rank == static_cast<std::size_t>(batch.root);
}

std::size_t input_bytes(const Batch& batch, const BatchEntry& entry, std::size_t set_rank) {
  const std::size_t elements = batch.kind == CollectiveKind::allgather
                                   ? to_size(entry.receive_counts[set_rank])
                                   : to_size(entry.elements);
  return elements * size_of(batch.dtype);
}

/// True if a rank, by writing its own output, would overwrite input that others still read.
bool spoils_input(const Batch& batch, const BatchEntry& entry, std::size_t set_rank) {
  if (batch.kind != CollectiveKind::allgather && batch.kind != CollectiveKind::reducescatter) return false;
  const std::size_t output_bytes = size_of(batch.dtype) * (batch.kind == CollectiveKind::allgather
                                                               ? total_of(entry.receive_counts)
                                                               : to_size(entry.receive_counts[set_rank]));
  return overlap(entry.input, input_bytes(batch, entry, set_rank), entry.output, output_bytes);
}

}  // namespace

bool RegisteredTensors::can_ask(const Batch& batch, std::size_t size_bytes) const {
  if (!kInPlace.contains(batch.kind)) return false;
  return kHeaderBytes + batch.entries.size() * sizeof(Row) <= domain_.stage_bytes() &&
         size_bytes >= kLeastBytes;
}

std::size_t RegisteredTensors::key_of(const Batch& batch, std::size_t size_bytes) {
  std::uint64_t key = size_bytes;
  for (const std::uint64_t part :
       {static_cast<std::uint64_t>(batch.kind), static_cast<std::uint64_t>(batch.dtype),
        static_cast<std::uint64_t>(batch.entries.size())})
    key = (key + part) * 0x9e3779b97f4a7c15ULL;  // the product carries low bits into the high half
  return static_cast<std::size_t>(key >> 32);
}

Result<SharedEntries> RegisteredTensors::agree(const Batch& batch, std::size_t size_bytes,
                                               const std::vector<std::size_t>& members) {
  SharedEntries shared;
  if (!can_ask(batch, size_bytes)) return shared;
  Known& known = sets_[batch.process_set->id];
  known.mapped.resize(members.size());
  known.tried.resize(members.size());
  Habit& habit = known.habits[key_of(batch, size_bytes) % known.habits.size()];
  if (habit.to_skip != 0) {
    --habit.to_skip;
    return shared;
  }
  DABKE_RETURN_IF_ERROR(exchange(batch, members.size()));
  for (std::size_t entry = 0; entry < entries_; ++entry) {
    if (is_shared(batch, entry)) shared.entries.push_back(entry);
  }
  if (shared.entries.empty()) {
    habit.pause = static_cast<std::uint8_t>(std::min(2 * habit.pause + 1, int{kMostSkipped}));
    habit.to_skip = habit.pause;
    return shared;
  }
  habit = {};
  DABKE_RETURN_IF_ERROR(reach(batch, members, shared.entries, known));
  std::erase_if(shared.entries, [&](std::size_t entry) {
    for (std::size_t set_rank = 0; set_rank < members.size(); ++set_rank) {
      const std::size_t bytes = input_bytes(batch, batch.entries[entry], set_rank);
      const auto [input, output] = row(set_rank, entry);
      if (contributes(batch, set_rank) && std::max(input, output) - 1 + bytes > known.mapped[set_rank])
        return true;
    }
    return false;
  });
  collect(batch, members, shared);
  return shared;
}

RegisteredTensors::Row RegisteredTensors::row_of(const Batch& batch, const BatchEntry& entry) const {
  const auto own = static_cast<std::size_t>(batch.process_set->rank);
  const shm::SharedHeap* const heap = heaps_.own();
  const std::size_t bytes = input_bytes(batch, entry, own);
  if (bytes == 0) return {1, 1};  // no rank reads this entry
  if (heap == nullptr || spoils_input(batch, entry, own)) return {};
  const auto input = heap->place_of(entry.input, bytes);
  if (!input || batch.kind != CollectiveKind::allreduce) return {input ? *input + 1 : 0, 0};
  const auto output = entry.output == entry.input ? input : heap->place_of(entry.output, bytes);
  return {*input + 1, output ? *output + 1 : 0};
}

/// Makes the table: this rank's rows from its tensors, the other rows from the ranks' stages.
Status RegisteredTensors::exchange(const Batch& batch, std::size_t ranks) {
  entries_ = batch.entries.size();
  rows_.resize(ranks * entries_);
  extents_.resize(ranks);
  DABKE_ASSIGN_OR_RETURN(std::byte* const stage, steps_.free_stage(kHeaderBytes + entries_ * sizeof(Row)));
  const auto own = static_cast<std::size_t>(batch.process_set->rank);
  for (std::size_t entry = 0; entry < entries_; ++entry) {
    const Row row = contributes(batch, own) ? row_of(batch, batch.entries[entry]) : Row{};
    std::memcpy(stage + kHeaderBytes + entry * sizeof row, &row, sizeof row);
  }
  // Read after the rows, so that memory which is added meanwhile is covered.
  const std::uint64_t extent = heaps_.own() == nullptr ? 0 : heaps_.own()->extent();
  std::memcpy(stage, &extent, sizeof extent);
  DABKE_RETURN_IF_ERROR(steps_.exchange());
  for (std::size_t set_rank = 0; set_rank < ranks; ++set_rank) {
    const std::byte* const from = steps_.stage_of(set_rank);
    std::uint64_t theirs = 0;
    std::memcpy(&theirs, from, sizeof theirs);
    extents_[set_rank] = theirs;
    if (entries_ != 0) std::memcpy(&rows_[set_rank * entries_], from + kHeaderBytes, entries_ * sizeof(Row));
  }
  steps_.end_round();
  return {};
}

bool RegisteredTensors::is_shared(const Batch& batch, std::size_t entry) const {
  for (std::size_t set_rank = 0; set_rank < extents_.size(); ++set_rank) {
    if (!contributes(batch, set_rank)) continue;
    if (row(set_rank, entry).input == 0) return false;
    if (batch.kind == CollectiveKind::allreduce && row(set_rank, entry).output == 0) return false;
  }
  return true;
}

/// Makes all members map the memory that is not yet known to be mapped by all.
Status RegisteredTensors::reach(const Batch& batch, const std::vector<std::size_t>& members,
                                const std::vector<std::size_t>& entries, Known& known) {
  std::vector<std::size_t> wanted(members.size());
  bool is_first = false;
  for (std::size_t set_rank = 0; set_rank < members.size(); ++set_rank) {
    if (!contributes(batch, set_rank)) continue;
    std::size_t end = 0;
    for (const std::size_t entry : entries) {
      const std::size_t bytes = input_bytes(batch, batch.entries[entry], set_rank);
      const auto [input, output] = row(set_rank, entry);
      if (bytes != 0) end = std::max<std::size_t>(end, std::max(input, output) - 1 + bytes);
    }
    if (end <= known.mapped[set_rank] || extents_[set_rank] <= known.tried[set_rank]) continue;
    wanted[set_rank] = extents_[set_rank];
    is_first = is_first || known.tried[set_rank] == 0;
  }
  if (std::ranges::all_of(wanted, [](std::size_t bytes) { return bytes == 0; })) return {};
  DABKE_ASSIGN_OR_RETURN(const bool could, heaps_.reach(members, wanted, is_first));
  for (std::size_t set_rank = 0; set_rank < members.size(); ++set_rank) {
    if (wanted[set_rank] == 0) continue;
    known.tried[set_rank] = wanted[set_rank];
    if (could) known.mapped[set_rank] = wanted[set_rank];
  }
  return {};
}

void RegisteredTensors::collect(const Batch& batch, const std::vector<std::size_t>& members,
                                SharedEntries& shared) const {
  const auto own = static_cast<std::size_t>(batch.process_set->rank);
  const bool writes_to_all = batch.kind == CollectiveKind::allreduce;
  for (std::size_t set_rank = 0; set_rank < members.size(); ++set_rank) {
    std::byte* const base = heaps_.base(members[set_rank]);
    for (const std::size_t entry : shared.entries) {
      const BatchEntry& mine = batch.entries[entry];
      const auto [input, output] = row(set_rank, entry);
      const bool is_there = contributes(batch, set_rank) && input_bytes(batch, mine, set_rank) != 0;
      const bool is_own = set_rank == own;
      const std::byte* const in =
          is_own ? static_cast<const std::byte*>(mine.input) : base + (is_there ? input - 1 : 0);
      shared.inputs.push_back(is_there ? in : nullptr);
      if (!writes_to_all) continue;
      std::byte* const out =
          is_own ? static_cast<std::byte*>(mine.output) : base + (is_there ? output - 1 : 0);
      shared.outputs.push_back(is_there ? out : nullptr);
    }
  }
}

}  // namespace dabke::ops

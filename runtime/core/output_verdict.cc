#include "runtime/core/output_verdict.h"

#include <fmt/format.h>

namespace dabke {

void OutputVerdict::note(std::size_t entry, Lacks what, std::size_t size_bytes) {
  mine_[2 * entry] = static_cast<std::int64_t>(what);
  mine_[2 * entry + 1] = static_cast<std::int64_t>(size_bytes);
}

const Batch& OutputVerdict::batch(std::uint64_t order, const ProcessSetInfo& set) {
  const auto ranks = static_cast<std::size_t>(set.size());
  all_.resize(mine_.size() * ranks);
  counts_.assign(ranks, static_cast<std::int64_t>(mine_.size()));
  batch_.order = order;
  batch_.kind = CollectiveKind::allgather;
  batch_.dtype = DType::i64;
  batch_.process_set = &set;
  batch_.entries.push_back({.input = mine_.data(),
                            .output = all_.data(),
                            .elements = static_cast<std::int64_t>(mine_.size()),
                            .receive_counts = counts_});
  return batch_;
}

Status OutputVerdict::of(std::size_t entry, std::string_view what, std::string_view tensor,
                         const ProcessSetInfo& set) const {
  std::string who;
  std::size_t more = 0;
  for (std::size_t rank = 0; rank < counts_.size(); ++rank) {
    const std::int64_t* const theirs = &all_[rank * mine_.size() + 2 * entry];
    const auto lacks = static_cast<Lacks>(theirs[0]);
    if (lacks == Lacks::nothing) continue;
    if (!who.empty()) {
      ++more;
      continue;
    }
    who = fmt::format(
        "on rank {} {} an output of {} bytes", set.ranks[rank],
        lacks == Lacks::refused ? "the output allocator gave no memory for" : "there is no memory for",
        theirs[1]);
  }
  if (who.empty()) return {};
  if (more != 0) who += fmt::format(", and {} ranks more have none", more);
  return {Code::out_of_memory,
          fmt::format(
              "{} '{}' cannot run: {}. No data has moved and the job goes on; free memory there, gather less "
              "at a time, or let the allocator give it, and submit the tensor again",
              what, tensor, who)};
}

}  // namespace dabke

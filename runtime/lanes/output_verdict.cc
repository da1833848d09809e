#include "runtime/lanes/output_verdict.h"
#include "runtime/base/text/call_name.h"
#include "runtime/base/text/counted.h"

#include <fmt/format.h>

namespace dabke::lanes {

namespace {

Shape with_rows(const Shape& shape, std::int64_t rows) {
  Shape other = shape;
  other.set(0, rows);
  return other;
}

}  // namespace

void OutputVerdict::note_lack(std::size_t entry, Lacks what, std::size_t size_bytes) {
  mine_[kNumbers * entry] = static_cast<std::int64_t>(what);
  mine_[kNumbers * entry + 1] = static_cast<std::int64_t>(size_bytes);
}

void OutputVerdict::note_misfit(std::size_t entry, std::int64_t given_rows, std::int64_t needed_rows) {
  mine_[kNumbers * entry] = static_cast<std::int64_t>(Lacks::fit);
  mine_[kNumbers * entry + 1] = given_rows;
  mine_[kNumbers * entry + 2] = needed_rows;
}

void OutputVerdict::note_misplaced(std::size_t entry, std::int64_t input_at, std::int64_t part_at) {
  mine_[kNumbers * entry] = static_cast<std::int64_t>(Lacks::place);
  mine_[kNumbers * entry + 1] = input_at;
  mine_[kNumbers * entry + 2] = part_at;
}

const Batch& OutputVerdict::batch(const Batch& of) {
  const auto ranks = static_cast<std::size_t>(of.process_set->size());
  all_.resize(mine_.size() * ranks);
  counts_.assign(ranks, static_cast<std::int64_t>(mine_.size()));
  batch_.order = of.order;
  batch_.kind = CollectiveKind::allgather;
  batch_.dtype = DType::i64;
  batch_.process_set = of.process_set;
  batch_.check = of.check;
  batch_.entries.push_back({.input = mine_.data(),
                            .output = all_.data(),
                            .elements = static_cast<std::int64_t>(mine_.size()),
                            .receive_counts = counts_});
  return batch_;
}

Status OutputVerdict::of(std::size_t entry, CollectiveKind kind, const TensorSpec& tensor,
                         const ProcessSetInfo& set) const {
  std::string what;
  auto first = Lacks::nothing;
  std::size_t more = 0;
  for (std::size_t rank = 0; rank < counts_.size(); ++rank) {
    const std::int64_t* const theirs = &all_[rank * mine_.size() + kNumbers * entry];
    const auto lacks = static_cast<Lacks>(theirs[0]);
    if (lacks == Lacks::nothing) continue;
    if (first != Lacks::nothing) {
      ++more;
      continue;
    }
    first = lacks;
    if (lacks == Lacks::fit) {
      what = fmt::format("on rank {} the output of tensor '{}' is {} {}, but the result is {} {}",
                         set.ranks[rank], tensor.name, name_of(tensor.dtype),
                         with_rows(tensor.shape, theirs[1]).to_string(), name_of(tensor.dtype),
                         with_rows(tensor.shape, theirs[2]).to_string());
    } else if (lacks == Lacks::place) {
      what = fmt::format(
          "on rank {} the input of tensor '{}' begins {} bytes into its output, but that rank's part begins "
          "{} bytes into it",
          set.ranks[rank], tensor.name, theirs[1], theirs[2]);
    } else {
      what = fmt::format(
          "on rank {} {} an output of {} bytes", set.ranks[rank],
          lacks == Lacks::refused ? "the output allocator gave no memory for" : "there is no memory for",
          theirs[1] == kMoreThanThereCanBe ? "more than 2^63 - 1" : std::to_string(theirs[1]));
    }
  }
  if (first == Lacks::nothing) return {};
  struct Ending {
    std::string_view of_more, remedy;
  };
  const Ending ending =
      first == Lacks::fit ? Ending{"no room for it", "pass an output of that shape, or none"}
      : first == Lacks::place
          ? Ending{"an output that does not fit",
                   "let the input begin at its output, or at that rank's part of it"}
          : Ending{"none", "free memory there, gather less at a time, or let the allocator return enough"};
  if (more != 0)
    what +=
        fmt::format(", and {} {} {}", counted(more, "more rank"), more == 1 ? "has" : "have", ending.of_more);
  return {first == Lacks::fit || first == Lacks::place ? Code::invalid_argument : Code::out_of_memory,
          fmt::format(
              "{} cannot run: {}. No data has moved and the job continues; {}, and submit the tensor again",
              name_of_call(kind, tensor.name), what, ending.remedy)};
}

}  // namespace dabke::lanes

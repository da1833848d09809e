#include "ops/shm/batch_marks.h"

namespace dabke::ops {

void BatchMarks::write(const Brought& batch) {
  const auto step_of = [&](std::size_t which) { return marks_[which].step.load(std::memory_order_relaxed); };
  Mark& mark = marks_[step_of(0) <= step_of(1) ? 0 : 1];
  mark.step.store(kChanging, std::memory_order_relaxed);
  mark.contents.store(batch.contents, std::memory_order_release);
  mark.step.store(batch.step, std::memory_order_release);
}

/// Returns nothing while the mark changes.
std::optional<BatchMarks::Brought> BatchMarks::read(const Mark& mark) {
  const std::uint64_t step = mark.step.load(std::memory_order_acquire);
  const std::uint64_t contents = mark.contents.load(std::memory_order_acquire);
  if (step == kChanging || mark.step.load(std::memory_order_relaxed) != step) return std::nullopt;
  return Brought{step, contents};
}

std::optional<BatchMarks::Brought> BatchMarks::instead_of(const Brought& own) const {
  const auto first = read(marks_[0]), second = read(marks_[1]);
  for (const auto& written : {first, second}) {
    if (written && written->step == own.step)
      return written->contents == own.contents ? std::nullopt : written;
  }
  if (!first || !second) return std::nullopt;
  const auto [earlier, later] =
      first->step < second->step ? std::pair(*first, *second) : std::pair(*second, *first);
  if (earlier.step > own.step || later.step < own.step) return std::nullopt;
  // One mark is from before this batch, one from after it, with none between. This holds only if the rank has
  // written no mark meanwhile.
  return read(marks_[0]) == first ? std::optional(later) : std::nullopt;
}

}  // namespace dabke::ops

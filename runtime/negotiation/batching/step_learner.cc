#include "runtime/negotiation/batching/step_learner.h"

#include <algorithm>

namespace dabke::negotiation {
namespace {

constexpr int kEqualSteps = 3;
constexpr std::size_t kFirstBatchPart = 8;
constexpr auto kLeastHold = std::chrono::microseconds(200);
constexpr auto kMostHold = std::chrono::milliseconds(20);

bool can_share_a_batch(const Request& a, const Request& b) {
  return a.tensors.size() == 1 && b.tensors.size() == 1 && a.process_set == b.process_set &&
         a.call_of(a.tensors[0]) == b.call_of(b.tensors[0]);
}

}  // namespace

StepLearner::Mark& StepLearner::mark_of(wire::Slot slot) {
  const wire::SlotIndex index = wire::index_of(slot);
  if (index >= marks_.size()) marks_.resize(index + 1);
  return marks_[index];
}

void StepLearner::ordered(wire::Slot slot, const RequestRef& request, TimePoint ready_at) {
  if (batch_bytes_ == 0) return;
  Mark& mark = mark_of(slot);
  if (mark.slot == slot && mark.step == number_) end_step();
  if (mark.slot == slot && mark.step == number_ - 1) ++repeated_;
  mark.slot = slot;
  mark.step = number_;
  step_.push_back({slot, request, ready_at});
}

void StepLearner::end_step() {
  if (repeated_ == step_.size() && last_size_ == step_.size()) {
    ++equal_steps_;
  } else {
    equal_steps_ = 0;
    forget();
  }
  if (equal_steps_ >= kEqualSteps && !learned_ && step_.size() > 1) {
    learned_ = true;
    change_ = cut();
  }
  last_size_ = step_.size();
  repeated_ = 0;
  ++number_;
  step_.clear();
}

void StepLearner::disturbed() {
  forget();
  equal_steps_ = 0;
  last_size_ = repeated_ = 0;
  number_ += 2;  // no slot has been in the step before this one
  step_.clear();
}

void StepLearner::wanted(wire::Slot slot) {
  mark_of(slot).wanted = slot;
  forget();
  equal_steps_ = 0;
}

void StepLearner::forget() {
  if (!learned_) return;
  learned_ = false;
  if (change_ && !change_->empty()) {
    change_.reset();  // never announced
  } else {
    change_.emplace();
  }
}

std::optional<std::vector<wire::LearnedBatch>> StepLearner::take_change() {
  return std::exchange(change_, std::nullopt);
}

std::vector<wire::LearnedBatch> StepLearner::cut() const {
  std::vector<Seen> by_readiness = step_;
  std::ranges::stable_sort(by_readiness, {}, &Seen::ready_at);
  std::vector<wire::LearnedBatch> batches;
  std::size_t bytes = 0;
  const Seen* first = nullptr;
  const Seen* last = nullptr;
  for (const Seen& seen : by_readiness) {
    const std::size_t size = seen.request->size_bytes();
    const std::size_t target = batches.size() <= 1 ? batch_bytes_ / kFirstBatchPart : batch_bytes_;
    const bool goes_on = last != nullptr && bytes + size <= target &&
                         marks_[wire::index_of(last->slot)].wanted != last->slot &&
                         can_share_a_batch(*last->request, *seen.request);
    if (!goes_on) {
      batches.emplace_back();
      bytes = 0;
      first = &seen;
    }
    batches.back().slots.push_back(seen.slot);
    bytes += size;
    last = &seen;
    const auto hold = std::clamp<Duration>(2 * (seen.ready_at - first->ready_at), kLeastHold, kMostHold);
    batches.back().hold_us =
        static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(hold).count());
  }
  return batches;
}

}  // namespace dabke::negotiation

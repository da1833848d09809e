#include "runtime/negotiation/batching/learned_batches.h"

#include <algorithm>

namespace dabke::negotiation {

std::vector<wire::Slot> LearnedBatches::learn(const std::vector<wire::LearnedBatch>& batches) {
  std::vector<wire::Slot> held = release_all();
  batches_.clear();
  for (const wire::LearnedBatch& batch : batches) {
    batches_.push_back({batch.slots, std::chrono::microseconds(batch.hold_us), {}, 0, false, kNever});
  }
  return held;
}

std::vector<wire::Slot> LearnedBatches::ready(std::uint32_t number, wire::Slot slot, TimePoint now) {
  Batch& batch = batches_[number - 1];
  if (++batch.been_ready >= batch.slots.size()) {
    std::vector<wire::Slot> all = std::exchange(batch.held, {});
    all.push_back(slot);
    if (all.size() == batch.slots.size()) all = batch.slots;  // in the order in which every rank reports them
    batch.been_ready = 0;
    batch.loose = false;
    batch.deadline = kNever;
    return all;
  }
  if (batch.loose) return {slot};
  if (batch.held.empty()) {
    batch.deadline = now + batch.hold;
    next_deadline_ = std::min(next_deadline_, batch.deadline);
  }
  batch.held.push_back(slot);
  return {};
}

std::vector<wire::Slot> LearnedBatches::release(Batch& batch) {
  if (batch.held.empty()) return {};
  batch.loose = true;
  batch.deadline = kNever;
  return std::exchange(batch.held, {});
}

std::vector<wire::Slot> LearnedBatches::release(std::uint32_t number) {
  return release(batches_[number - 1]);
}

std::vector<wire::Slot> LearnedBatches::release_all() {
  std::vector<wire::Slot> out;
  for (Batch& batch : batches_) {
    const std::vector<wire::Slot> held = release(batch);
    out.insert(out.end(), held.begin(), held.end());
  }
  next_deadline_ = kNever;
  return out;
}

std::vector<wire::Slot> LearnedBatches::overdue(TimePoint now) {
  std::vector<wire::Slot> out;
  if (now < next_deadline_) return out;
  for (Batch& batch : batches_) {
    if (now < batch.deadline) continue;
    const std::vector<wire::Slot> held = release(batch);
    out.insert(out.end(), held.begin(), held.end());
  }
  find_next_deadline();
  return out;
}

void LearnedBatches::find_next_deadline() {
  next_deadline_ = kNever;
  for (const Batch& batch : batches_) next_deadline_ = std::min(next_deadline_, batch.deadline);
}

}  // namespace dabke::negotiation

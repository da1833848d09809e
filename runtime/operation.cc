#include "runtime/operation.h"

#include <cstdlib>

#include <fmt/format.h>

#include "runtime/fusion/fusion_buffer.h"

namespace dabke {

void Operation::Free::operator()(void* memory) const { std::free(memory); }

bool Operation::wait_until(TimePoint deadline) {
  if (is_done()) return true;
  std::unique_lock lock(mutex_);
  const auto done = [this] { return done_.load(std::memory_order_relaxed); };
  if (deadline != kNever) return changed_.wait_until(lock, deadline, done);
  changed_.wait(lock, done);
  return true;
}

Status Operation::status() const {
  return is_done() ? status_ : Status(Code::in_progress, "not complete yet");
}

Status Operation::provide_output(std::size_t index) {
  TensorView& output = outputs[index];
  const std::size_t bytes = output.size_bytes();
  if (output.data != nullptr || bytes == 0) return {};
  if (allocate) {
    output.data = allocate(index, output);
  } else {
    output.data = std::aligned_alloc(kFusionAlignment, fusion_padded(bytes));
    if (output.data) owned_.emplace_back(output.data);
  }
  if (output.data != nullptr) return {};
  const std::string& name = request->tensors[index].name;  // whoever reports it names the request
  return {Code::out_of_memory, fmt::format("no memory for an output of {} bytes{}", bytes,
                                           name == request->name ? "" : fmt::format(" (tensor '{}')", name))};
}

void Operation::complete(Status status) {
  {
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    done_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  uses.clear();  // last: who has waited to free that memory finds the operation done
}

}  // namespace dabke

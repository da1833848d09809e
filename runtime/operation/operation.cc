#include "runtime/operation/operation.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>

#include <fmt/format.h>

namespace dabke {

namespace {

/// The place where threads wait until an operation has completed. There are few waiters and many operations,
/// so operations share these places.
struct alignas(64) WaitingRoom {
  std::mutex mutex;
  std::condition_variable changed;
};

WaitingRoom& waiting_room(const Operation* operation) {
  // Never destroyed: threads may wait until the end. Needs no memory, because a waiting thread has submitted
  // already.
  alignas(WaitingRoom) static std::array<std::byte, sizeof(std::array<WaitingRoom, 64>)> memory;
  static auto& rooms = *new (memory.data()) std::array<WaitingRoom, 64>;
  return rooms[std::hash<const void*>()(operation) / 64 % rooms.size()];
}

}  // namespace

const Operation::Extras& Operation::extras() const {
  alignas(Extras) static std::array<std::byte, sizeof(Extras)> memory;
  static const Extras& none = *::new (memory.data()) Extras;  // never destroyed: a handle may outlive main()
  return extras_ ? *extras_ : none;
}

Operation::Extras& Operation::make_extras() {
  if (!extras_) extras_ = std::make_unique<Extras>();
  return *extras_;
}

bool Operation::wait_for(Until until, TimePoint deadline, WaitCheck* check) {
  if (check == nullptr) return is_done() || sleep_until(until, deadline);
  while (!is_done() && !check->stops()) {
    if (sleep_until(until, std::min(deadline, check->due()))) return true;
    if (Clock::now() >= deadline) return is_done();
  }
  return !check->has_stopped();
}

bool Operation::sleep_until(Until until, TimePoint deadline) {
  WaitingRoom& room = waiting_room(this);
  std::unique_lock lock(room.mutex);
  State pending = State::pending;
  state_.compare_exchange_strong(pending, State::awaited);  // otherwise it is awaited already, or done
  const auto reached = [&] { return is_done() || (until == Until::enqueued && device_end_ != nullptr); };
  if (deadline != kNever) return room.changed.wait_until(lock, deadline, reached);
  room.changed.wait(lock, reached);
  return true;
}

std::shared_ptr<DeviceEvent> Operation::end_on_device() const {
  const std::lock_guard lock(waiting_room(this).mutex);
  return device_end_;
}

void Operation::note_enqueued(const std::shared_ptr<DeviceEvent>& end) {
  if (++tensors_enqueued_ != inputs.size()) return;
  WaitingRoom& room = waiting_room(this);
  {
    const std::lock_guard lock(room.mutex);
    device_end_ = end;
    if (state_.load() != State::awaited) return;
  }
  room.changed.notify_all();
}

Status Operation::status() const {
  return is_done() ? Status(code_, message()) : Status(Code::in_progress, "not complete yet");
}

Status Operation::provide_output(std::size_t index, const std::shared_ptr<DeviceMemory>& memory) {
  TensorView& output = outputs[index];
  const std::size_t bytes = output.size_bytes();
  if (output.data != nullptr || bytes == 0) return {};
  if (extras().allocate) {
    output.data = extras().allocate(index, output);
  } else {
    DeviceBuffer own = allocate_from(memory, bytes);
    if (own == nullptr) DABKE_RETURN_IF_ERROR(memory->state());
    output.data = own.get();
    if (own != nullptr) make_extras().owned_.push_back(std::move(own));
  }
  if (output.data != nullptr) return {};
  const std::string& name = request->tensors[index].name;  // the reporter of the error names the request
  return {
      Code::out_of_memory,
      fmt::format("{} an output of {} bytes{}",
                  extras().allocate ? "the output allocator gave no memory for" : "there is no memory for",
                  bytes, name == request->name ? "" : fmt::format(" (tensor '{}')", name))};
}

void Operation::complete(const Status& status) noexcept {
  code_ = status.code();
  try {
    if (!status.message().empty()) make_extras().message = status.message();
  } catch (...) {
    if (extras_) extras_->message = text_of(Code::out_of_memory);  // too short to need memory
  }
  const bool was_awaited = state_.exchange(State::done) == State::awaited;
  const bool is_of_device = !inputs.empty() && inputs[0].device.type != DeviceType::host;
  if (was_awaited || is_of_device) {
    WaitingRoom& room = waiting_room(this);
    std::shared_ptr<DeviceEvent> end;  // goes back to the device after the lock is released
    {
      const std::lock_guard lock(room.mutex);  // otherwise a thread that has just checked would sleep on
      end = std::move(device_end_);
    }
    if (was_awaited) room.changed.notify_all();
  }
  uses.clear();  // last: a thread that has waited to free that memory finds the operation done
}

}  // namespace dabke

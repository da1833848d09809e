#include "runtime/lanes/device_recorder.h"

#include <algorithm>

#include "runtime/base/threads/exceptions.h"

namespace dabke::lanes {

void DeviceRecorder::put(const timeline::Record& record) noexcept {
  attempt([&] {
    auto event = stream_.record_with_time();
    kept_.push_back({event ? event.take() : nullptr, record});
  });
}

void DeviceRecorder::record_last() {
  while (!kept_.empty()) {
    if (kept_.front().event != nullptr) {
      const Result<bool> reached = kept_.front().event->is_reached();
      if (reached && !*reached) return;
    }
    record_first();
  }
}

void DeviceRecorder::end() {
  record_last();
  while (!kept_.empty()) {
    kept_.front().event = nullptr;
    record_first();
  }
}

void DeviceRecorder::record_first() {
  Kept first = std::move(kept_.front());
  kept_.pop_front();
  const TimePoint now = Clock::now();
  const auto at = first.event != nullptr ? first.event->reached_at() : std::nullopt;
  latest_ = std::clamp(at.value_or(now), latest_, std::max(latest_, now));
  first.record.time_ns = std::chrono::nanoseconds(latest_.time_since_epoch()).count();
  timeline_.put(first.record);
}

}  // namespace dabke::lanes

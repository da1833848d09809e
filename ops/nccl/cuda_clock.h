// Converts events of a device to times of this process's clock.
//
// A device measures the time between two of its events, but has no time of day. So there is an anchor: an
// event whose time on the host's clock is known.
//   1. The anchor is recorded on a stream where nothing else is ever enqueued. The host reads its clock
//      before that, and again when the anchor is reached. The anchor's time is the middle of the two
//      readings. Of kTries anchors, the one with the closest readings is used.
//   2. An event's time is the anchor's time plus the time that the device measures between anchor and event.
//   3. An anchor that is kLife old is replaced when an event is recorded, and while one is waited for. An
//      event uses the last anchor that was reached before it.
// The error of a time is the sum of three terms:
// * half the distance between the host's two readings, a distance of at most kPatience
// * the device's own resolution, half a microsecond
// * the drift between the clocks of host and device in twice kLife: 20 us at a drift of one part in 10,000.
// If the host does not see an anchor reached within kPatience, the last anchor stays, and the next try comes
// after kPause. Without any anchor, events have no time.
#pragma once

#include <memory>

#include "ops/nccl/cuda_device.h"
#include "runtime/base/clock.h"

namespace dabke::ops {

/// The clock of one lane, used only by the lane's thread.
class CudaClock {
 public:
  static constexpr Duration kLife = std::chrono::milliseconds(100);
  static constexpr Duration kPatience = std::chrono::milliseconds(1);
  static constexpr Duration kPause = std::chrono::milliseconds(10);
  static constexpr int kTries = 3;

  struct Anchor {
    std::shared_ptr<CudaEvent> event;
    TimePoint at;
    Duration error;  // the most by which `at` may be wrong
  };

  static Result<std::shared_ptr<CudaClock>> open(std::shared_ptr<CudaDevice> device);
  ~CudaClock();
  CudaClock(const CudaClock&) = delete;
  CudaClock& operator=(const CudaClock&) = delete;

  const std::shared_ptr<CudaDevice>& device() const { return device_; }
  /// Returns the anchor, replaced first if it is kLife old; null if there has been none.
  std::shared_ptr<const Anchor> anchor();
  std::shared_ptr<const Anchor> last_anchor() const { return anchor_; }

 private:
  CudaClock(std::shared_ptr<CudaDevice> device, cuda::Stream stream)
      : device_(std::move(device)), stream_(stream) {}
  std::shared_ptr<const Anchor> make_anchor();

  const std::shared_ptr<CudaDevice> device_;
  const cuda::Stream stream_;
  std::shared_ptr<const Anchor> anchor_;
  TimePoint next_try_{};
};

/// An event with a time.
class TimedCudaEvent final : public PooledCudaEvent {
 public:
  static Result<std::shared_ptr<TimedCudaEvent>> record(std::shared_ptr<CudaClock> clock,
                                                        cuda::Stream stream);
  TimedCudaEvent(std::shared_ptr<CudaClock> clock, cuda::Event event)
      : PooledCudaEvent(clock->device(), event, CudaDevice::EventKind::timed),
        clock_(std::move(clock)),
        anchor_(clock_->anchor()) {}
  Result<bool> is_reached() override;
  std::optional<TimePoint> reached_at() override;

 private:
  const std::shared_ptr<CudaClock> clock_;
  std::shared_ptr<const CudaClock::Anchor> anchor_;  // the last one surely reached before
};

}  // namespace dabke::ops

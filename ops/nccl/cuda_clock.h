// Which moment of this process's clock an event of a device is.
//
// A device tells how long lies between two of its events, and no time of day. So there is an anchor, an event of a
// moment that the host knows:
//   1. On a stream where nothing else is ever enqueued the anchor is recorded. The host looks at its clock before that,
//      and again as it sees it reached: it was reached between both, in the middle say. Of kTries the one counts for
//      which they lie closest together.
//   2. An event's moment is the anchor's and what the device says lies between.
//   3. An anchor that is kLife old gives way to a new one, as an event is recorded and while one is waited for; an event
//      goes by the last that was reached before it.
// So a moment is wrong by half of what lies between the host's two looks of 1., at most kPatience, by the device's own
// resolution (half a microsecond), and by what the clocks of host and device drift apart in twice kLife: 20 us, where
// that is one part in 10,000. Where the host does not see an anchor within kPatience the one before stays, and the next try
// is kPause later; without any, events have no time.
#pragma once

#include <memory>

#include "ops/nccl/cuda_device.h"
#include "runtime/base/clock.h"

namespace dabke::ops {

/// Of one lane, and used by its thread alone.
class CudaClock {
 public:
  static constexpr Duration kLife = std::chrono::milliseconds(100);
  static constexpr Duration kPatience = std::chrono::milliseconds(1);
  static constexpr Duration kPause = std::chrono::milliseconds(10);
  static constexpr int kTries = 3;

  struct Anchor {
    std::shared_ptr<CudaEvent> event;
    TimePoint at;
    Duration error;  // by how much that may be wrong
  };

  static Result<std::shared_ptr<CudaClock>> open(std::shared_ptr<CudaDevice> device);
  ~CudaClock();
  CudaClock(const CudaClock&) = delete;
  CudaClock& operator=(const CudaClock&) = delete;

  const std::shared_ptr<CudaDevice>& device() const { return device_; }
  /// A new one where the last is kLife old; null: there has been none.
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

/// One with a time.
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
  std::shared_ptr<const CudaClock::Anchor> anchor_;  // the last that was surely reached before
};

}  // namespace dabke::ops

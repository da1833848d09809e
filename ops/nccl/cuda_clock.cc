#include "ops/nccl/cuda_clock.h"

#include <thread>

namespace dabke::ops {

Result<std::shared_ptr<CudaClock>> CudaClock::open(std::shared_ptr<CudaDevice> device) {
  DABKE_ASSIGN_OR_RETURN(const cuda::Stream stream, device->make_stream());
  return std::shared_ptr<CudaClock>(new CudaClock(std::move(device), stream));
}

CudaClock::~CudaClock() {
  if (device_->is_stuck()) return;
  const CudaScope current = device_->scope();
  (void)device_->driver().destroy_stream(stream_);
}

std::shared_ptr<const CudaClock::Anchor> CudaClock::anchor() {
  const TimePoint now = Clock::now();
  if (now < next_try_) return anchor_;
  std::shared_ptr<const Anchor> best;
  for (int i = 0; i < kTries; ++i) {
    const auto made = make_anchor();
    if (made == nullptr) break;  // the device is busy
    if (best == nullptr || made->error < best->error) best = made;
  }
  next_try_ = now + (best != nullptr ? kLife : kPause);
  if (best != nullptr) anchor_ = best;
  return anchor_;
}

std::shared_ptr<const CudaClock::Anchor> CudaClock::make_anchor() {
  constexpr auto kKind = CudaDevice::EventKind::timed;
  auto raw = device_->take_event(kKind);
  if (!raw) return nullptr;
  const auto event = std::make_shared<PooledCudaEvent>(device_, raw.take(), kKind);
  const CudaScope current = device_->scope();
  const TimePoint before = Clock::now();
  if (device_->driver().record_event(event->get(), stream_) != cuda::kSuccess) return nullptr;
  while (true) {
    const cuda::Error error = device_->driver().query_event(event->get());
    const TimePoint after = Clock::now();
    const bool goes_on = error == cuda::kSuccess || error == cuda::kNotReady;
    if (!goes_on || after - before > kPatience) return nullptr;
    if (error == cuda::kSuccess)
      return std::make_shared<Anchor>(Anchor{event, before + (after - before) / 2, (after - before) / 2});
    std::this_thread::yield();
  }
}

Result<std::shared_ptr<TimedCudaEvent>> TimedCudaEvent::record(std::shared_ptr<CudaClock> clock,
                                                               cuda::Stream stream) {
  const auto device = clock->device();
  DABKE_ASSIGN_OR_RETURN(const cuda::Event event, device->take_event(CudaDevice::EventKind::timed));
  auto made = std::make_shared<TimedCudaEvent>(std::move(clock), event);
  const CudaScope current = device->scope();
  DABKE_RETURN_IF_ERROR(
      cuda::check(device->driver(), "cuEventRecord", device->driver().record_event(event, stream)));
  return made;
}

Result<bool> TimedCudaEvent::is_reached() {
  auto before = clock_->last_anchor();
  DABKE_ASSIGN_OR_RETURN(const bool reached, PooledCudaEvent::is_reached());
  if (!reached) {
    anchor_ = std::move(before);
    (void)clock_->anchor();
  }
  return reached;
}

std::optional<TimePoint> TimedCudaEvent::reached_at() {
  if (anchor_ == nullptr) return std::nullopt;
  const CudaScope current = device_->scope();
  float milliseconds = 0;
  const cuda::Error error = device_->driver().elapsed_time(&milliseconds, anchor_->event->get(), event_);
  if (error != cuda::kSuccess) return std::nullopt;
  return anchor_->at +
         std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(milliseconds));
}

}  // namespace dabke::ops

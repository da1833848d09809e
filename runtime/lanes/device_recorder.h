// What a run does on its device, in the timeline with the times of the device.
//
//   1. put() enqueues an event with a time behind what is on the stream, and keeps the record.
//   2. tell() is called again and again, and gives the timeline the records whose events were reached, in their order,
//      each with the time of its event.
//   3. end() gives it the rest, with the time that it is: the run has failed, or its device does not tell.
// A time is never before that of the record before it, nor before the host had enqueued it, nor after it was seen: so
// what a device's clock is translated wrong by cannot turn anything around.
#pragma once

#include <deque>
#include <memory>

#include "runtime/backend/device.h"
#include "runtime/timeline/recording/timeline.h"

namespace dabke::lanes {

/// Of one run, and the lane's thread. `stream` and `timeline` outlive it.
class DeviceRecorder final : public timeline::StreamRecorder {
 public:
  DeviceRecorder(DeviceStream& stream, timeline::Timeline& timeline) : stream_(stream), timeline_(timeline) {}
  DeviceRecorder(const DeviceRecorder&) = delete;
  DeviceRecorder& operator=(const DeviceRecorder&) = delete;

  void put(const timeline::Record& record) noexcept override;
  /// No record is from before now.
  void begin_now() { latest_ = Clock::now(); }
  void record_last();
  void end();

 private:
  struct Kept {
    std::shared_ptr<DeviceEvent> event;  // null: there was none
    timeline::Record record;
  };
  void record_first();

  DeviceStream& stream_;
  timeline::Timeline& timeline_;
  std::deque<Kept> kept_;
  TimePoint latest_ = Clock::now();
};

}  // namespace dabke::lanes

// Records in the timeline what a run does on its device, with the times of the device.
//
//   1. put() enqueues an event with a time behind the work on the stream, and keeps the record.
//   2. record_last() is called repeatedly. It gives the timeline the records whose events were reached, in
//      their order, each with the time of its event.
//   3. end() gives it the other records, with the current time: the run has failed, or its device gives no
//      time.
// A time is never before begin_now(), before that of the previous record, or after the moment when it was
// read. So no error in the translation of a device's clock can change an order.
#pragma once

#include <deque>
#include <memory>

#include "runtime/backend/device.h"
#include "runtime/timeline/recording/timeline.h"

namespace dabke::lanes {

/// For one run, on the lane's thread. `stream` and `timeline` outlive it.
class DeviceRecorder final : public timeline::StreamRecorder {
 public:
  DeviceRecorder(DeviceStream& stream, timeline::Timeline& timeline) : stream_(stream), timeline_(timeline) {}
  DeviceRecorder(const DeviceRecorder&) = delete;
  DeviceRecorder& operator=(const DeviceRecorder&) = delete;

  void put(const timeline::Record& record) noexcept override;
  /// No record gets a time before now.
  void begin_now() { latest_ = Clock::now(); }
  void record_last();
  void end();

 private:
  struct Kept {
    std::shared_ptr<DeviceEvent> event;  // null if there was none
    timeline::Record record;
  };
  void record_first();

  DeviceStream& stream_;
  timeline::Timeline& timeline_;
  std::deque<Kept> kept_;
  TimePoint latest_ = Clock::now();
};

}  // namespace dabke::lanes

// A device as the runtime uses it: its memory, and a stream on which work happens in order.
//
// The host is one of the devices; its streams do all work at once. A lane has one stream of its device, and
// is the only caller of that stream, with two exceptions:
// * any thread allocates and frees memory
// * the program's threads call the functions for the program's own streams
// Enqueued work begins when all work enqueued before it has ended. No function here waits.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/tensor.h"
#include "runtime/kernels/kernels.h"

namespace dabke {

/// A device's memory. May be used from any thread.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  /// Returns null when there is no memory. Aligned to kFusionAlignment.
  virtual void* allocate(std::size_t bytes) noexcept = 0;
  /// Memory that the device may still read or write must not be freed.
  virtual void free(void* memory) noexcept = 0;
  /// Returns an error if the device is lost, which is why there was no memory.
  virtual Status state() const { return {}; }
  /// Bytes of freed memory that are kept for the next allocation.
  virtual std::size_t kept_bytes() const { return 0; }
  /// Gives the kept memory back.
  virtual void trim() noexcept {}
};

/// The deleter of a `DeviceBuffer`. Keeps the device's `DeviceMemory` alive until the buffer is freed.
struct FreeDeviceMemory {
  std::shared_ptr<DeviceMemory> memory;
  void operator()(void* bytes) const noexcept { memory->free(bytes); }
};
using DeviceBuffer = std::unique_ptr<void, FreeDeviceMemory>;
/// Returns null when there is no memory.
DeviceBuffer allocate_from(const std::shared_ptr<DeviceMemory>& memory, std::size_t bytes) noexcept;

/// A stream and an event that the program itself has made, as handles of the device's vendor: cudaStream_t
/// and cudaEvent_t, or the driver's equivalents. A null stream is the stream for which the vendor uses null.
struct ProgramStream {
  void* handle = nullptr;
};
struct ProgramEvent {
  void* handle = nullptr;
};

/// A point of a stream. May be queried from any thread.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  /// True once all work before the point has ended. An error is the device's, and the work has ended then.
  virtual Result<bool> is_reached() = 0;
  /// The time at which the point was reached; nothing before that, or if the time is unknown. Only for events
  /// with a time. Called by their stream's lane.
  virtual std::optional<TimePoint> reached_at() { return std::nullopt; }
  /// Makes work that the program enqueues on `stream` from now on wait for this point. An error means that
  /// nothing can wait on that stream.
  virtual Status hold_back(ProgramStream stream) = 0;
};

/// Elements to copy. `to` may equal `from` if the two dtypes are equal; they must not overlap otherwise.
struct ElementCopy {
  void* to;
  const void* from;
  std::size_t elements;
};

/// A vendor's profiler that is attached to this process, and is shown what the process does. From any thread.
class Profiler {
 public:
  virtual ~Profiler() = default;
  /// Ranges of one thread nest.
  virtual void begin_range(const std::string& name) noexcept = 0;
  virtual void end_range() noexcept = 0;
};

class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  virtual Device device() const = 0;
  virtual const std::shared_ptr<DeviceMemory>& memory() const = 0;
  /// Host memory that the device copies to and from.
  virtual const std::shared_ptr<DeviceMemory>& host_memory() const = 0;

  /// Copies within the device, and scales on the way. Different dtypes are converted as in kernels::widen()
  /// and narrow(). `pieces` is read before copy() returns.
  virtual Status copy(std::span<const ElementCopy> pieces, DType to, DType from,
                      const kernels::Scale& by) = 0;
  virtual Status fill_neutral(DType dtype, ReduceOp op, void* into, std::size_t elements) = 0;
  virtual Status clear(void* memory, std::size_t bytes) = 0;
  virtual Status copy_to_host(void* host, const void* device, std::size_t bytes) = 0;
  virtual Status copy_from_host(void* device, const void* host, std::size_t bytes) = 0;

  /// Returns the point behind all work enqueued so far.
  virtual Result<std::shared_ptr<DeviceEvent>> record() = 0;
  /// Like record(), with a time if the device has one. Only for the timeline, because it costs more.
  virtual Result<std::shared_ptr<DeviceEvent>> record_with_time() { return record(); }
  /// Makes work that is enqueued from now on wait for `event`, which may be of any stream of this device.
  virtual Status wait_for(const std::shared_ptr<DeviceEvent>& event) = 0;
  /// Frees the buffer once all work enqueued so far has ended.
  virtual void retire(DeviceBuffer buffer) = 0;
  /// Keeps `owner` for as long as the process lives. The device has not finished, and may still use what
  /// `owner` owns.
  virtual void keep(std::shared_ptr<void> owner) = 0;

  /// Calls `work` with this device current on the calling thread, for a library that uses the device's
  /// memory. From any thread.
  virtual Status with_current(const std::function<Status()>& work) { return work(); }

  /// Null if no profiler is attached. From any thread.
  virtual Profiler* profiler() const { return nullptr; }

  /// More streams of the device, for work that need not follow the lane's order.
  virtual std::span<const std::shared_ptr<DeviceStream>> sides() const { return {}; }

  // Called by any thread of the program.
  /// Returns the point behind all work that the program has enqueued so far on a stream of its own on this
  /// device. Returns an error if there is no such stream, or if the stream is being captured into a graph.
  virtual Result<std::shared_ptr<DeviceEvent>> point_behind(ProgramStream stream) = 0;
  /// Returns the point at which the program last recorded an event of its own; null if that point is reached.
  /// The program neither records the event again nor destroys it while the returned point exists.
  virtual Result<std::shared_ptr<DeviceEvent>> point_of(ProgramEvent event) = 0;
};

/// A range of the calling thread for the lifetime of this object, if a profiler is attached.
class ProfilerRange {
 public:
  /// `name` makes the range's name, and is called only if a profiler is attached. `stream` is null where
  /// there is no device.
  template <class Name>
  ProfilerRange(const DeviceStream* stream, const Name& name)
      : profiler_(stream == nullptr ? nullptr : stream->profiler()) {
    if (profiler_ != nullptr) profiler_->begin_range(name());
  }
  ~ProfilerRange() {
    if (profiler_ != nullptr) profiler_->end_range();
  }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  Profiler* const profiler_;
};

/// The host's stream, on which all work happens at once.
DeviceStream& host_stream();

/// Opens a device of this process. An error states why the device cannot be used. Called once per device,
/// from any thread.
using OpenDevice = std::function<Result<std::shared_ptr<DeviceStream>>(Device)>;

}  // namespace dabke

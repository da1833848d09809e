// A device as the runtime uses it: its memory, and a stream on which things happen in order.
//
// The host is one of them, whose streams do at once what they are told. A lane has one stream of its device, and is
// the only caller of it but for memory, which any thread allocates and frees, and for what is about the program's own
// streams, which the program's threads call. What is enqueued begins when all that was enqueued before has ended;
// nothing here waits.
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
  /// Null when there is none. Aligned to kFusionAlignment.
  virtual void* allocate(std::size_t bytes) noexcept = 0;
  /// What the device may still read or write must not be freed.
  virtual void free(void* memory) noexcept = 0;
  /// An error: the device is lost, and that is why there was no memory.
  virtual Status state() const { return {}; }
  /// What it keeps of what was freed, for whoever allocates next.
  virtual std::size_t kept_bytes() const { return 0; }
  /// Gives that back.
  virtual void trim() noexcept {}
};

/// Memory that somebody owns. Keeps the device's memory until it is freed.
struct FreeDeviceMemory {
  std::shared_ptr<DeviceMemory> memory;
  void operator()(void* bytes) const noexcept { memory->free(bytes); }
};
using DeviceBuffer = std::unique_ptr<void, FreeDeviceMemory>;
/// Null when there is none.
DeviceBuffer allocate_from(const std::shared_ptr<DeviceMemory>& memory, std::size_t bytes) noexcept;

/// A stream and an event that the program has made itself, as the device's vendor hands them out: cudaStream_t and
/// cudaEvent_t, or what the driver calls so. A stream of null is the one that the vendor takes null for.
struct ProgramStream {
  void* handle = nullptr;
};
struct ProgramEvent {
  void* handle = nullptr;
};

/// A point of a stream. May be asked from any thread.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  /// Whether all that was before it has ended; an error is the device's, and it is over then.
  virtual Result<bool> is_reached() = 0;
  /// When it was reached, once it is; nothing: nobody knows. Of one with a time, by its stream's lane.
  virtual std::optional<TimePoint> reached_at() { return std::nullopt; }
  /// What the program enqueues on its stream from now on begins after this. An error: nothing can wait there.
  virtual Status hold_back(ProgramStream stream) = 0;
};

/// Elements that are copied. `to` may equal `from` where the dtypes are one; no other overlap.
struct ElementCopy {
  void* to;
  const void* from;
  std::size_t elements;
};

/// Tells a profiler of the vendor's, which is attached to this process, what is done. From any thread.
class Profiler {
 public:
  virtual ~Profiler() = default;
  /// The calling thread's ranges nest.
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

  /// Within the device: converts from one dtype to the other, as kernels::widen() and narrow() do where they differ,
  /// and scales on the way. `pieces` is read before it returns.
  virtual Status copy(std::span<const ElementCopy> pieces, DType to, DType from,
                      const kernels::Scale& by) = 0;
  virtual Status fill_neutral(DType dtype, ReduceOp op, void* into, std::size_t elements) = 0;
  virtual Status clear(void* memory, std::size_t bytes) = 0;
  virtual Status copy_to_host(void* host, const void* device, std::size_t bytes) = 0;
  virtual Status copy_from_host(void* device, const void* host, std::size_t bytes) = 0;

  /// The point behind all that was enqueued.
  virtual Result<std::shared_ptr<DeviceEvent>> record() = 0;
  /// The same with a time, where the device has some. For the timeline alone, because it costs more.
  virtual Result<std::shared_ptr<DeviceEvent>> record_with_time() { return record(); }
  /// What is enqueued from now on begins after an event, of this device, of any of its streams.
  virtual Status wait_for(const std::shared_ptr<DeviceEvent>& event) = 0;
  /// Freed once all that was enqueued until now has ended.
  virtual void retire(DeviceBuffer buffer) = 0;
  /// Kept for as long as the process lives: the device has not come to its end, and may still use what this owns.
  virtual void keep(std::shared_ptr<void> owner) = 0;

  /// Calls `work` with this device current on the calling thread, for a library that is given its memory. From any thread.
  virtual Status with_current(const std::function<Status()>& work) { return work(); }

  /// Null: none is attached. From any thread.
  virtual Profiler* profiler() const { return nullptr; }

  /// More streams of the device, for what need not follow in the order of the lane.
  virtual std::span<const std::shared_ptr<DeviceStream>> sides() const { return {}; }

  // By any thread of the program's.
  /// The point behind all that the program has enqueued on a stream of its own on this device until now. An error:
  /// there is none such, or it is being captured into a graph.
  virtual Result<std::shared_ptr<DeviceEvent>> point_behind(ProgramStream stream) = 0;
  /// The point at which the program has recorded an event of its own last; null: it is reached. The event is not
  /// recorded again, nor destroyed, while somebody has this.
  virtual Result<std::shared_ptr<DeviceEvent>> point_of(ProgramEvent event) = 0;
};

/// A range of the calling thread's while it lives, where a profiler is attached.
class ProfilerRange {
 public:
  /// `name` makes it, and is not called else. `stream`: null where there is no device.
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

/// The host's: everything happens at once.
DeviceStream& host_stream();

/// How a device of this process is opened; an error says why it cannot be used. Called once a device, from any thread.
using OpenDevice = std::function<Result<std::shared_ptr<DeviceStream>>(Device)>;

}  // namespace dabke

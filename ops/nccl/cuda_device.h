// One CUDA device of this process: its context, memory, events and streams, and our kernels on it.
//
// Every call is made with the device's primary context pushed, because the caller may be any thread of the
// application. That context is the one that the CUDA runtime uses, so it has the memory that a framework has
// allocated. Every call is also made in the relaxed capture mode. In other modes, our queries and allocations
// would break a capture that any thread of the application makes. None of our work becomes part of the
// capture.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ops/nccl/cuda_driver.h"
#include "ops/nccl/gpu_kernels.h"
#include "runtime/backend/device.h"

namespace dabke::ops {

/// Directs the calling thread's CUDA calls to this context during its lifetime, in a mode that breaks no
/// capture.
class CudaScope {
 public:
  CudaScope(const cuda::Driver& driver, cuda::Context context);
  ~CudaScope();
  CudaScope(const CudaScope&) = delete;
  CudaScope& operator=(const CudaScope&) = delete;

 private:
  const cuda::Driver& driver_;
  int capture_mode_ = cuda::kCaptureRelaxed;
};

class CudaDevice : public std::enable_shared_from_this<CudaDevice> {
 public:
  /// Retains the context for as long as the process lives, and loads the kernels. `driver` outlives the
  /// device. `profiler` is null if no profiler is attached.
  static Result<std::shared_ptr<CudaDevice>> open(const cuda::Driver& driver, int index,
                                                  Profiler* profiler = nullptr);

  const cuda::Driver& driver() const { return driver_; }
  int index() const { return index_; }
  const GpuKernels& kernels() const { return *kernels_; }
  Profiler* profiler() const { return profiler_; }
  CudaScope scope() const { return {driver_, context_}; }
  /// Makes a stream of high priority.
  Result<cuda::Stream> make_stream();
  /// Opens a stream with `sides` side streams.
  Result<std::shared_ptr<DeviceStream>> open_stream(std::size_t sides = 0);

  /// Events with a time are for the timeline. Events without one cost less. Each kind has a pool.
  enum class EventKind : unsigned { untimed = cuda::kEventDisableTiming, timed = 0 };
  /// Takes an event, which give_back() returns to its pool.
  Result<cuda::Event> take_event(EventKind kind);
  void give_back(cuda::Event event, EventKind kind) noexcept;
  /// Returns an error if the program's stream is being captured into a graph. A stream of ours that waits for
  /// it, or for which it waits, would become part of that graph. The caller holds scope().
  Status refuse_capture(cuda::Stream stream) const;
  /// Returns the error of a call that got a stream or an event of the program's.
  Status check_of_program(std::string_view call, cuda::Error error) const;

  /// Keeps `owner` for ever. Called when the device does not finish its work and may still use what `owner`
  /// owns. From then on nothing of the device is freed, because cuMemFree would wait for the device.
  void keep(std::shared_ptr<void> owner);
  /// Stores the reason why there was no memory, if the reason is that the device is lost.
  void note_no_memory(std::string_view call, cuda::Error error) noexcept;
  Status state() const;
  bool is_stuck() const { return is_stuck_.load(); }

 private:
  CudaDevice(const cuda::Driver& driver, int index, Profiler* profiler)
      : driver_(driver), index_(index), profiler_(profiler) {}

  const cuda::Driver& driver_;
  const int index_;
  Profiler* const profiler_;
  cuda::Context context_ = nullptr;
  std::unique_ptr<GpuKernels> kernels_;
  std::atomic<bool> is_stuck_{false};
  mutable std::mutex mutex_;  // guards all members below
  Status lost_;
  std::map<EventKind, std::vector<cuda::Event>> events_;
  std::vector<std::shared_ptr<void>> kept_;
};

/// The device's own memory. cuMemFree waits until the device has finished all work that may use the memory,
/// including work that the application has enqueued. So memory is never reused while the application still
/// reads it.
class CudaMemory final : public DeviceMemory {
 public:
  explicit CudaMemory(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}
  void* allocate(std::size_t bytes) noexcept override;
  void free(void* memory) noexcept override;
  Status state() const override { return device_->state(); }

 private:
  const std::shared_ptr<CudaDevice> device_;
};

/// Pinned memory of the host, for copies that the runtime makes. Freed blocks are kept, because pinned memory
/// is slow to get. They are given back by trim(), and when an allocation of another size finds no memory.
class PinnedMemory final : public DeviceMemory {
 public:
  explicit PinnedMemory(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}
  ~PinnedMemory() override;
  void* allocate(std::size_t bytes) noexcept override;
  void free(void* memory) noexcept override;
  Status state() const override { return device_->state(); }
  std::size_t kept_bytes() const override;
  void trim() noexcept override;

 private:
  void* allocate_new(std::size_t bytes) noexcept;
  bool drop_free() noexcept;

  const std::shared_ptr<CudaDevice> device_;
  mutable std::mutex mutex_;  // guards all members below
  std::map<std::size_t, std::vector<void*>> free_;
  std::map<void*, std::size_t> taken_;
};

class CudaEvent : public DeviceEvent {
 public:
  /// Wraps an event of the program's.
  CudaEvent(std::shared_ptr<CudaDevice> device, cuda::Event event)
      : device_(std::move(device)), event_(event) {}
  Result<bool> is_reached() override;
  Status hold_back(ProgramStream stream) override;
  cuda::Event get() const { return event_; }

 protected:
  const std::shared_ptr<CudaDevice> device_;
  const cuda::Event event_;
};

/// An event from one of the device's pools.
class PooledCudaEvent : public CudaEvent {
 public:
  PooledCudaEvent(std::shared_ptr<CudaDevice> device, cuda::Event event, CudaDevice::EventKind kind)
      : CudaEvent(std::move(device), event), kind_(kind) {}
  ~PooledCudaEvent() override { device_->give_back(event_, kind_); }

 private:
  const CudaDevice::EventKind kind_;
};

class CudaClock;

class CudaStream final : public DeviceStream {
 public:
  CudaStream(std::shared_ptr<CudaDevice> device, cuda::Stream stream,
             std::vector<std::shared_ptr<DeviceStream>> sides = {});
  ~CudaStream() override;

  const std::shared_ptr<CudaDevice>& cuda_device() const { return device_; }
  cuda::Stream get() const { return stream_; }

  Device device() const override { return {DeviceType::cuda, device_->index()}; }
  const std::shared_ptr<DeviceMemory>& memory() const override { return memory_; }
  const std::shared_ptr<DeviceMemory>& host_memory() const override { return host_memory_; }
  Status copy(std::span<const ElementCopy> pieces, DType to, DType from, const kernels::Scale& by) override;
  Status fill_neutral(DType dtype, ReduceOp op, void* into, std::size_t elements) override;
  Status clear(void* memory, std::size_t bytes) override;
  Status copy_to_host(void* host, const void* device, std::size_t bytes) override;
  Status copy_from_host(void* device, const void* host, std::size_t bytes) override;
  Result<std::shared_ptr<DeviceEvent>> record() override;
  Result<std::shared_ptr<DeviceEvent>> record_with_time() override;
  Status wait_for(const std::shared_ptr<DeviceEvent>& event) override;
  void retire(DeviceBuffer buffer) override;
  void keep(std::shared_ptr<void> owner) override;
  Status with_current(const std::function<Status()>& work) override;
  Profiler* profiler() const override { return device_->profiler(); }
  std::span<const std::shared_ptr<DeviceStream>> sides() const override { return sides_; }
  Result<std::shared_ptr<DeviceEvent>> point_behind(ProgramStream stream) override;
  Result<std::shared_ptr<DeviceEvent>> point_of(ProgramEvent event) override;

 private:
  Result<std::shared_ptr<DeviceEvent>> record_on(cuda::Stream stream);
  struct Retired {
    std::shared_ptr<DeviceEvent> after;
    DeviceBuffer buffer;
  };
  void free_retired();

  const std::shared_ptr<CudaDevice> device_;
  const cuda::Stream stream_;
  const std::vector<std::shared_ptr<DeviceStream>> sides_;
  const std::shared_ptr<DeviceMemory> memory_;
  const std::shared_ptr<DeviceMemory> host_memory_;
  std::deque<Retired> retired_;
  std::shared_ptr<CudaClock> clock_;  // set once a timeline is recorded
};

}  // namespace dabke::ops

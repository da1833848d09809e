// One CUDA device of this process: its context, memory, events and streams, and our kernels on it.
//
// Every call is made with the device's primary context pushed, because the caller may be any thread of the
// application's, and in the relaxed capture mode, because our queries and allocations would break a capture of the
// application's otherwise: one of any thread, the calling one among them. None of our work becomes part of it. The
// primary context is that which the CUDA runtime uses, so what a framework has allocated is there.
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

/// While it lives the thread's calls go to this context, and break no capture.
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
  /// Retains the context, for as long as the process lives, and loads the kernels. `driver` outlives it.
  /// `profiler`: null where none is attached.
  static Result<std::shared_ptr<CudaDevice>> open(const cuda::Driver& driver, int index,
                                                  Profiler* profiler = nullptr);

  const cuda::Driver& driver() const { return driver_; }
  int index() const { return index_; }
  const GpuKernels& kernels() const { return *kernels_; }
  Profiler* profiler() const { return profiler_; }
  CudaScope scope() const { return {driver_, context_}; }
  /// A stream of high priority.
  Result<cuda::Stream> make_stream();
  /// With so many sides.
  Result<std::shared_ptr<DeviceStream>> open_stream(std::size_t sides = 0);

  /// Events have a time, for the timeline, or none, which costs less; each have a pool.
  enum class EventKind : unsigned { untimed = cuda::kEventDisableTiming, timed = 0 };
  /// Given back by give_back().
  Result<cuda::Event> take_event(EventKind kind);
  void give_back(cuda::Event event, EventKind kind) noexcept;
  /// An error: the program's stream is being captured into a graph, and what waits for it, or it for, would be part of
  /// that. With scope().
  Status refuse_capture(cuda::Stream stream) const;
  /// What a call that was given the program's stream or event says.
  Status check_of_program(std::string_view call, cuda::Error error) const;

  /// The device did not come to the end of what it was given, and may still use what `owner` owns: that is never
  /// freed, nor anything else from now on, because cuMemFree would wait for the device.
  void keep(std::shared_ptr<void> owner);
  /// Why there was no memory, where the device is lost and there is none for that reason.
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
  mutable std::mutex mutex_;  // all below
  Status lost_;
  std::map<EventKind, std::vector<cuda::Event>> events_;
  std::vector<std::shared_ptr<void>> kept_;
};

/// The device's own memory. cuMemFree waits until the device has come to the end of all that may use it, also what
/// the application has enqueued; so memory is not used again behind the application's back.
class CudaMemory final : public DeviceMemory {
 public:
  explicit CudaMemory(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}
  void* allocate(std::size_t bytes) noexcept override;
  void free(void* memory) noexcept override;
  Status state() const override { return device_->state(); }

 private:
  const std::shared_ptr<CudaDevice> device_;
};

/// Pinned memory of the host, for copies that the runtime makes. Kept for the next, because it is slow to get, until
/// trim(), or until there is none for whoever needs another size.
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
  mutable std::mutex mutex_;  // all below
  std::map<std::size_t, std::vector<void*>> free_;
  std::map<void*, std::size_t> taken_;
};

class CudaEvent : public DeviceEvent {
 public:
  /// One of the program's.
  CudaEvent(std::shared_ptr<CudaDevice> device, cuda::Event event)
      : device_(std::move(device)), event_(event) {}
  Result<bool> is_reached() override;
  Status hold_back(ProgramStream stream) override;
  cuda::Event get() const { return event_; }

 protected:
  const std::shared_ptr<CudaDevice> device_;
  const cuda::Event event_;
};

/// One of the device's pools.
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
  std::shared_ptr<CudaClock> clock_;  // once a timeline is recorded
};

}  // namespace dabke::ops

#include "ops/nccl/cuda_device.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "ops/nccl/cuda_clock.h"
#include "runtime/base/settings/fusion_settings.h"
#include "runtime/base/text/counted.h"
#include "runtime/base/threads/exceptions.h"

namespace dabke::ops {
namespace {

/// The driver's stream for a program's. Null means the legacy stream or the thread's own stream, depending on
/// how the driver's caller was compiled. We were compiled for the legacy stream.
cuda::Stream handle_of(ProgramStream stream) {
  return stream.handle != nullptr ? static_cast<cuda::Stream>(stream.handle)
                                  : reinterpret_cast<cuda::Stream>(cuda::kLegacyStream);
}

Status is_captured(std::string_view what) {
  return {Code::invalid_argument,
          fmt::format("{} being captured into a CUDA graph, but collectives cannot be part of graphs; submit "
                      "and wait before the capture begins or after it ends",
                      what)};
}

}  // namespace

CudaScope::CudaScope(const cuda::Driver& driver, cuda::Context context) : driver_(driver) {
  (void)driver_.push_context(context);
  (void)driver_.exchange_capture(&capture_mode_);
}

CudaScope::~CudaScope() {
  (void)driver_.exchange_capture(&capture_mode_);
  cuda::Context popped = nullptr;
  (void)driver_.pop_context(&popped);
}

Result<std::shared_ptr<CudaDevice>> CudaDevice::open(const cuda::Driver& driver, int index,
                                                     Profiler* profiler) {
  std::shared_ptr<CudaDevice> device(new CudaDevice(driver, index, profiler));
  int count = 0;
  DABKE_RETURN_IF_ERROR(cuda::check(driver, "cuDeviceGetCount", driver.device_count(&count)));
  if (index < 0 || index >= count) {
    return Status(Code::unsupported,
                  fmt::format("there is no cuda:{}: this process sees {} (CUDA_VISIBLE_DEVICES)", index,
                              counted(count, "device")));
  }
  cuda::DeviceHandle handle = 0;
  DABKE_RETURN_IF_ERROR(cuda::check(driver, "cuDeviceGet", driver.device(&handle, index)));
  DABKE_RETURN_IF_ERROR(
      cuda::check(driver, "cuDevicePrimaryCtxRetain", driver.retain_context(&device->context_, handle)));
  const CudaScope scope = device->scope();
  DABKE_ASSIGN_OR_RETURN(GpuKernels kernels, GpuKernels::load(driver));
  device->kernels_ = std::make_unique<GpuKernels>(std::move(kernels));
  return device;
}

Result<cuda::Stream> CudaDevice::make_stream() {
  const CudaScope current = scope();
  int least = 0;
  int greatest = 0;
  DABKE_RETURN_IF_ERROR(
      cuda::check(driver_, "cuCtxGetStreamPriorityRange", driver_.priority_range(&least, &greatest)));
  cuda::Stream stream = nullptr;
  DABKE_RETURN_IF_ERROR(cuda::check(driver_, "cuStreamCreateWithPriority",
                                    driver_.create_stream(&stream, cuda::kStreamNonBlocking, greatest)));
  return stream;
}

Result<std::shared_ptr<DeviceStream>> CudaDevice::open_stream(std::size_t sides) {
  std::vector<std::shared_ptr<DeviceStream>> made;
  while (made.size() < sides) {
    DABKE_ASSIGN_OR_RETURN(auto side, open_stream());
    made.push_back(std::move(side));
  }
  DABKE_ASSIGN_OR_RETURN(const cuda::Stream stream, make_stream());
  return std::shared_ptr<DeviceStream>(
      std::make_shared<CudaStream>(shared_from_this(), stream, std::move(made)));
}

Result<cuda::Event> CudaDevice::take_event(EventKind kind) {
  {
    const std::lock_guard lock(mutex_);
    auto& pool = events_[kind];
    if (!pool.empty()) {
      const cuda::Event event = pool.back();
      pool.pop_back();
      return event;
    }
  }
  const CudaScope current = scope();
  cuda::Event event = nullptr;
  DABKE_RETURN_IF_ERROR(
      cuda::check(driver_, "cuEventCreate", driver_.create_event(&event, static_cast<unsigned>(kind))));
  return event;
}

void CudaDevice::give_back(cuda::Event event, EventKind kind) noexcept {
  attempt([&] {
    const std::lock_guard lock(mutex_);
    events_[kind].push_back(event);
  });
}

Status CudaDevice::refuse_capture(cuda::Stream stream) const {
  int status = cuda::kNotCapturing;
  const cuda::Error error = driver_.is_capturing(stream, &status);
  if (error == cuda::kSuccess && status != cuda::kNotCapturing) return is_captured("the stream is");
  return check_of_program("cuStreamIsCapturing", error);
}

Status CudaDevice::check_of_program(std::string_view call, cuda::Error error) const {
  switch (error) {
    case cuda::kCaptureImplicit:
      return is_captured("the stream is the default one, and it waits for a stream of the program that is");
    case cuda::kCapturedEvent: return is_captured("the event was recorded on a stream that is, or was,");
    case cuda::kInvalidHandle:
      return {Code::invalid_argument,
              fmt::format("{}: {}; the stream or event no longer exists, or does not belong to cuda:{}", call,
                          cuda::describe(driver_, error), index_)};
    default: return cuda::check(driver_, call, error);
  }
}

void CudaDevice::keep(std::shared_ptr<void> owner) {
  is_stuck_ = true;
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(owner));
}

void CudaDevice::note_no_memory(std::string_view call, cuda::Error error) noexcept {
  attempt([&] {
    Status why =
        error == cuda::kSuccess || error == cuda::kOutOfMemory ? Status() : cuda::check(driver_, call, error);
    const std::lock_guard lock(mutex_);
    lost_ = std::move(why);
  });
}

Status CudaDevice::state() const {
  const std::lock_guard lock(mutex_);
  return copy_of(lost_);
}

void* CudaMemory::allocate(std::size_t bytes) noexcept {
  const CudaScope current = device_->scope();
  cuda::Pointer memory = 0;  // aligned to 256 bytes
  const cuda::Error error = device_->driver().allocate(&memory, std::max<std::size_t>(bytes, 1));
  if (error == cuda::kSuccess) return reinterpret_cast<void*>(memory);
  device_->note_no_memory("cuMemAlloc", error);
  return nullptr;
}

void CudaMemory::free(void* memory) noexcept {
  if (memory == nullptr || device_->is_stuck()) return;
  const CudaScope current = device_->scope();
  (void)device_->driver().free(reinterpret_cast<cuda::Pointer>(memory));
}

PinnedMemory::~PinnedMemory() { trim(); }

void PinnedMemory::trim() noexcept {
  attempt([&] {
    const std::lock_guard lock(mutex_);
    (void)drop_free();
  });
}

/// Frees the unused blocks; true if there were any. Frees nothing of a stuck device, which may still use it.
bool PinnedMemory::drop_free() noexcept {
  if (free_.empty() || device_->is_stuck()) return false;
  const CudaScope current = device_->scope();
  for (const auto& [bytes, all] : free_) {
    for (void* const memory : all) (void)device_->driver().free_host(memory);
  }
  free_.clear();
  return true;
}

std::size_t PinnedMemory::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& [size, all] : free_) bytes += size * all.size();
  return bytes;
}

void* PinnedMemory::allocate_new(std::size_t bytes) noexcept {
  const CudaScope current = device_->scope();
  void* memory = nullptr;
  const auto take = [&] { return device_->driver().allocate_host(&memory, bytes, 0); };
  cuda::Error error = take();
  if (error == cuda::kOutOfMemory && drop_free()) error = take();
  if (error == cuda::kSuccess) return memory;
  device_->note_no_memory("cuMemHostAlloc", error);
  return nullptr;
}

void* PinnedMemory::allocate(std::size_t bytes) noexcept {
  // Sizes are powers of two, so that freed blocks fit again.
  std::size_t rounded = 4096;
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) return nullptr;
  while (rounded < bytes) rounded *= 2;
  void* memory = nullptr;
  attempt([&] {
    const std::lock_guard lock(mutex_);
    if (const auto kept = free_.find(rounded); kept != free_.end()) {
      memory = kept->second.back();
      kept->second.pop_back();
      if (kept->second.empty()) free_.erase(kept);
    } else {
      memory = allocate_new(rounded);
    }
    if (memory != nullptr) taken_[memory] = rounded;
  });
  return memory;
}

void PinnedMemory::free(void* memory) noexcept {
  if (memory == nullptr) return;
  attempt([&] {
    const std::lock_guard lock(mutex_);
    const auto taken = taken_.find(memory);
    free_[taken->second].push_back(memory);
    taken_.erase(taken);
  });
}

Result<bool> CudaEvent::is_reached() {
  const CudaScope current = device_->scope();
  const cuda::Error error = device_->driver().query_event(event_);
  if (error == cuda::kNotReady) return false;
  DABKE_RETURN_IF_ERROR(cuda::check(device_->driver(), "cuEventQuery", error));
  return true;
}

Status CudaEvent::hold_back(ProgramStream stream) {
  const CudaScope current = device_->scope();
  const cuda::Stream held = handle_of(stream);
  DABKE_RETURN_IF_ERROR(device_->refuse_capture(held));
  return device_->check_of_program("cuStreamWaitEvent", device_->driver().wait_event(held, event_, 0));
}

CudaStream::CudaStream(std::shared_ptr<CudaDevice> device, cuda::Stream stream,
                       std::vector<std::shared_ptr<DeviceStream>> sides)
    : device_(std::move(device)),
      stream_(stream),
      sides_(std::move(sides)),
      memory_(std::make_shared<CudaMemory>(device_)),
      host_memory_(std::make_shared<PinnedMemory>(device_)) {}

CudaStream::~CudaStream() {
  if (device_->is_stuck()) {
    for (Retired& one : retired_) (void)one.buffer.release();
    return;
  }
  retired_.clear();  // cuMemFree waits until the device has finished with them
  clock_ = nullptr;
  const CudaScope current = device_->scope();
  (void)device_->driver().destroy_stream(stream_);
}

Status CudaStream::copy(std::span<const ElementCopy> pieces, DType to, DType from, const kernels::Scale& by) {
  const CudaScope current = device_->scope();
  return device_->kernels().copy(stream_, pieces, to, from, by);
}

Status CudaStream::fill_neutral(DType dtype, ReduceOp op, void* into, std::size_t elements) {
  const CudaScope current = device_->scope();
  return device_->kernels().fill_neutral(stream_, dtype, op, into, elements);
}

Status CudaStream::clear(void* memory, std::size_t bytes) {
  if (bytes == 0) return {};
  const CudaScope current = device_->scope();
  return cuda::check(
      device_->driver(), "cuMemsetD8Async",
      device_->driver().fill_bytes(reinterpret_cast<cuda::Pointer>(memory), 0, bytes, stream_));
}

Status CudaStream::copy_to_host(void* host, const void* device, std::size_t bytes) {
  if (bytes == 0) return {};
  const CudaScope current = device_->scope();
  return cuda::check(
      device_->driver(), "cuMemcpyDtoHAsync",
      device_->driver().copy_to_host(host, reinterpret_cast<cuda::Pointer>(device), bytes, stream_));
}

Status CudaStream::copy_from_host(void* device, const void* host, std::size_t bytes) {
  if (bytes == 0) return {};
  const CudaScope current = device_->scope();
  return cuda::check(
      device_->driver(), "cuMemcpyHtoDAsync",
      device_->driver().copy_to_device(reinterpret_cast<cuda::Pointer>(device), host, bytes, stream_));
}

Result<std::shared_ptr<DeviceEvent>> CudaStream::record() {
  free_retired();
  return record_on(stream_);
}

/// May be called from any thread.
Result<std::shared_ptr<DeviceEvent>> CudaStream::record_on(cuda::Stream stream) {
  constexpr auto kKind = CudaDevice::EventKind::untimed;
  DABKE_ASSIGN_OR_RETURN(const cuda::Event event, device_->take_event(kKind));
  auto made = std::make_shared<PooledCudaEvent>(device_, event, kKind);
  const CudaScope current = device_->scope();
  DABKE_RETURN_IF_ERROR(
      device_->check_of_program("cuEventRecord", device_->driver().record_event(event, stream)));
  return std::shared_ptr<DeviceEvent>(std::move(made));
}

Result<std::shared_ptr<DeviceEvent>> CudaStream::record_with_time() {
  if (clock_ == nullptr) {
    DABKE_ASSIGN_OR_RETURN(clock_, CudaClock::open(device_));
  }
  DABKE_ASSIGN_OR_RETURN(auto made, TimedCudaEvent::record(clock_, stream_));
  return std::shared_ptr<DeviceEvent>(std::move(made));
}

Result<std::shared_ptr<DeviceEvent>> CudaStream::point_behind(ProgramStream stream) {
  {
    const CudaScope current = device_->scope();
    DABKE_RETURN_IF_ERROR(device_->refuse_capture(handle_of(stream)));
  }
  return record_on(handle_of(stream));
}

Result<std::shared_ptr<DeviceEvent>> CudaStream::point_of(ProgramEvent event) {
  const CudaScope current = device_->scope();
  const auto own = static_cast<cuda::Event>(event.handle);
  // The query also refuses an event of a capture, which our stream would become part of; no other call does.
  const cuda::Error error = device_->driver().query_event(own);
  if (error == cuda::kNotReady)
    return std::shared_ptr<DeviceEvent>(std::make_shared<CudaEvent>(device_, own));
  DABKE_RETURN_IF_ERROR(device_->check_of_program("cuEventQuery", error));
  return std::shared_ptr<DeviceEvent>();
}

Status CudaStream::wait_for(const std::shared_ptr<DeviceEvent>& event) {
  const CudaScope current = device_->scope();
  const cuda::Event point = std::static_pointer_cast<CudaEvent>(event)->get();
  return cuda::check(device_->driver(), "cuStreamWaitEvent", device_->driver().wait_event(stream_, point, 0));
}

void CudaStream::retire(DeviceBuffer buffer) {
  auto after = record();
  // Without an event the device is lost, and does no more work.
  if (after) retired_.push_back({after.take(), std::move(buffer)});
}

void CudaStream::free_retired() {
  while (!retired_.empty()) {
    const auto reached = retired_.front().after->is_reached();
    if (reached && !*reached) return;
    retired_.pop_front();
  }
}

Status CudaStream::with_current(const std::function<Status()>& work) {
  const CudaScope current = device_->scope();
  return work();
}

void CudaStream::keep(std::shared_ptr<void> owner) { device_->keep(std::move(owner)); }

}  // namespace dabke::ops

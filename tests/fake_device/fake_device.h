// A device in this process, for tests: memory that the host must not touch, streams that are threads, events,
// random delays, and errors on request. Tests of the runtime use it as a GPU; tests of vendor code do not.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "runtime/backend/device.h"

namespace dabke::test {

/// Memory at addresses that end the process when the host reads or writes there. Any thread may use it.
class FakeMemory final : public DeviceMemory {
 public:
  ~FakeMemory() override;
  void* allocate(std::size_t bytes) noexcept override;
  void free(void* memory) noexcept override;
  /// The address at which the device finds these bytes; null unless all of them are in one allocation.
  std::byte* real(const void* memory, std::size_t bytes);
  /// From now on, only so many bytes are left to allocate.
  void limit(std::size_t bytes);

 private:
  struct Allocation {
    std::byte* real;
    std::size_t bytes;
  };
  std::mutex mutex_;
  std::map<const std::byte*, Allocation> allocations_;  // by the address that the host has
  std::size_t left_ = std::size_t{1} << 40;
};

/// The device that holds the tensors of a rank in a test.
class TestDevice {
 public:
  virtual ~TestDevice() = default;
  virtual int index() const = 0;
  virtual std::shared_ptr<DeviceMemory> tensor_memory() const = 0;
  // Copies as a program does on its own streams, but at once.
  virtual void write(void* device, const void* host, std::size_t bytes) = 0;
  virtual void read(void* host, const void* device, std::size_t bytes) = 0;
};

class FakeDevice final : public TestDevice, public std::enable_shared_from_this<FakeDevice> {
 public:
  /// `seed` is that of the delays.
  FakeDevice(int index, unsigned seed) : index_(index), random_(seed) {}

  int index() const override { return index_; }
  std::shared_ptr<DeviceMemory> tensor_memory() const override { return memory_; }
  const std::shared_ptr<FakeMemory>& memory() const { return memory_; }
  std::shared_ptr<DeviceStream> open_stream();

  void write(void* device, const void* host, std::size_t bytes) override;
  void read(void* host, const void* device, std::size_t bytes) override;

  /// So many more operations succeed. The next one fails, and all after it, as on a device that is lost.
  void fail_after(int operations);
  /// No operation ends before go_on().
  void hang();
  /// Waits until an operation has come that does not end.
  void wait_until_it_hangs();
  /// Waits until so many operations are queued behind one that does not end.
  void wait_until_it_has(int operations);
  void go_on();
  /// From now on, each operation takes this long.
  void slow_down(Duration each);
  /// The number of owners that were kept, because the device may still write to their memory.
  std::size_t kept();

  // ---- for streams of this device
  /// Waits as long as the next operation takes. Returns an error if the device is lost.
  Status take_time();
  /// Adds to the number of queued operations; -1: one of them starts.
  void has_more(int operations);
  void keep(std::shared_ptr<void> owner);

 private:
  const int index_;
  const std::shared_ptr<FakeMemory> memory_ = std::make_shared<FakeMemory>();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::minstd_rand random_;
  int operations_left_ = -1;  // operations until one fails; -1: none fails
  bool hangs_ = false;
  Duration each_{};
  int stuck_ = 0;    // operations that wait for go_on()
  int waiting_ = 0;  // operations that are queued behind others
  std::vector<std::shared_ptr<void>> kept_;
};

/// An event of any stream of the device. An event of the program is also a FakeEvent, and its stream a
/// FakeStream.
class FakeEvent final : public DeviceEvent, public std::enable_shared_from_this<FakeEvent> {
 public:
  Result<bool> is_reached() override;
  std::optional<TimePoint> reached_at() override;
  Status hold_back(ProgramStream stream) override;
  void reach(const Status& status);
  /// Blocks, and returns the status with which the event was reached.
  Status wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  TimePoint reached_at_{};
  Status status_;
};

class FakeStream final : public DeviceStream {
 public:
  explicit FakeStream(std::shared_ptr<FakeDevice> device);
  /// Returns once all enqueued operations have ended.
  ~FakeStream() override;

  /// Runs `operation` on the device, which has its own view of memory. An error of the operation loses the
  /// device.
  void enqueue(std::function<Status()> operation);
  FakeDevice& fake() { return *device_; }

  Device device() const override { return {DeviceType::cuda, device_->index()}; }
  const std::shared_ptr<DeviceMemory>& memory() const override { return memory_; }
  const std::shared_ptr<DeviceMemory>& host_memory() const override { return host_stream().memory(); }
  Status copy(std::span<const ElementCopy> pieces, DType to, DType from, const kernels::Scale& by) override;
  Status fill_neutral(DType dtype, ReduceOp op, void* into, std::size_t elements) override;
  Status clear(void* memory, std::size_t bytes) override;
  Status copy_to_host(void* host, const void* device, std::size_t bytes) override;
  Status copy_from_host(void* device, const void* host, std::size_t bytes) override;
  Result<std::shared_ptr<DeviceEvent>> record() override;
  Status wait_for(const std::shared_ptr<DeviceEvent>& event) override;
  void retire(DeviceBuffer buffer) override;
  void keep(std::shared_ptr<void> owner) override { device_->keep(std::move(owner)); }
  Result<std::shared_ptr<DeviceEvent>> point_behind(ProgramStream stream) override;
  Result<std::shared_ptr<DeviceEvent>> point_of(ProgramEvent event) override;

  /// Like FakeMemory::real(), but returns an error if the device has no such memory.
  Result<std::byte*> real(const void* memory, std::size_t bytes);

 private:
  void loop();

  const std::shared_ptr<FakeDevice> device_;
  const std::shared_ptr<DeviceMemory> memory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void(Status& lost)>> queue_;
  bool stopping_ = false;
  std::jthread thread_;
};

}  // namespace dabke::test

#include "tests/in_process/double_device.h"

#include <cstring>

#include "ops/registry.h"
#include "tests/fake_cuda/doubles.h"

namespace dabke::test {
namespace {

/// The device's memory, but allocations come from the double itself: planned
/// faults hit the runtime, not the test.
class DoubleMemory final : public DeviceMemory {
 public:
  DoubleMemory(std::shared_ptr<DeviceMemory> of_device, int index)
      : of_device_(std::move(of_device)), index_(index) {}
  void* allocate(std::size_t bytes) noexcept override { return allocate_on_double(index_, bytes); }
  void free(void* memory) noexcept override { of_device_->free(memory); }

 private:
  const std::shared_ptr<DeviceMemory> of_device_;
  const int index_;
};

class DoubleDevice final : public TestDevice {
 public:
  explicit DoubleDevice(std::shared_ptr<DeviceStream> stream)
      : stream_(std::move(stream)), memory_(std::make_shared<DoubleMemory>(stream_->memory(), index())) {}
  int index() const override { return stream_->device().index; }
  std::shared_ptr<DeviceMemory> tensor_memory() const override { return memory_; }
  // The memory of a fake device is host memory.
  void write(void* device, const void* host, std::size_t bytes) override {
    if (bytes != 0) std::memcpy(device, host, bytes);
  }
  void read(void* host, const void* device, std::size_t bytes) override { write(host, device, bytes); }

 private:
  const std::shared_ptr<DeviceStream> stream_;
  const std::shared_ptr<DeviceMemory> memory_;
};

}  // namespace

Result<std::shared_ptr<TestDevice>> open_double(const Config& config, int index) {
  DABKE_RETURN_IF_ERROR(load_doubles());
  const OpenDevice open =
      ops::device_opener(config, [](const std::string&) { return std::optional<std::string>(); });
  DABKE_ASSIGN_OR_RETURN(auto stream, open(Device{DeviceType::cuda, index}));
  return std::shared_ptr<TestDevice>(std::make_shared<DoubleDevice>(std::move(stream)));
}

}  // namespace dabke::test

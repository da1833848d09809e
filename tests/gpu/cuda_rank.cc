#include "tests/gpu/cuda_rank.h"

#include <mutex>
#include <thread>

#include "ops/registry.h"

namespace dabke::test {
namespace {

/// A real device's memory, which the host reads and writes only by copies.
class CudaTestDevice final : public TestDevice {
 public:
  explicit CudaTestDevice(std::shared_ptr<DeviceStream> stream) : stream_(std::move(stream)) {}
  int index() const override { return stream_->device().index; }
  std::shared_ptr<DeviceMemory> tensor_memory() const override { return stream_->memory(); }
  void write(void* device, const void* host, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    must(stream_->copy_from_host(device, host, bytes));
    await_end(*stream_);
  }
  void read(void* host, const void* device, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    must(stream_->copy_to_host(host, device, bytes));
    await_end(*stream_);
  }

 private:
  const std::shared_ptr<DeviceStream> stream_;  // used only by this object
  std::mutex mutex_;
};

}  // namespace

ops::NcclProcess& cuda_process() {
  static ops::NcclProcess& process = *new ops::NcclProcess;
  const Config config = must(config_from_environment(process_environment()));
  must(process.load_driver());
  must(process.load_nccl(config.nccl_library, process_environment()));
  return process;
}

const cuda::Driver& cuda_driver() {
  static const cuda::Driver& driver = *new cuda::Driver(must(cuda::load_driver()));
  return driver;
}

int device_count() {
  int count = 0;
  must(cuda::check(cuda_driver(), "cuDeviceGetCount", cuda_driver().device_count(&count)));
  return count;
}

void await_end(DeviceStream& stream) {
  const auto end = must(stream.record());
  while (!must(end->is_reached())) std::this_thread::yield();
}

Device device_of(const World& world) { return {DeviceType::cuda, world.local_rank % device_count()}; }

Rank open_rank(bool brings_tensors, const Environment& environment) {
  const Config config = must(config_from_environment(environment));
  bootstrap::Bootstrapped place = must(bootstrap::bootstrap(config, environment));
  const int rank = place.world.rank;
  std::shared_ptr<TestDevice> device;
  if (brings_tensors) {
    device = std::make_shared<CudaTestDevice>(must(cuda_process().open(device_of(place.world))));
  }
  core::Runtime::Factories factories{ops::make_backends};
  factories.open_device = ops::device_opener(config, environment);
  factories.device_route = ops::device_route;
  return {rank, must(core::Runtime::open(config, std::move(place), factories)), std::move(device)};
}

}  // namespace dabke::test

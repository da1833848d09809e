#include "runtime/backend/device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "runtime/base/bytes.h"
#include "runtime/base/settings/fusion_settings.h"

namespace dabke {
namespace {

class HostMemory final : public DeviceMemory {
 public:
  void* allocate(std::size_t bytes) noexcept override {
    // Large memory begins at a page.
    const std::size_t alignment = bytes < kPageBytes ? kFusionAlignment : kPageBytes;
    if (bytes > std::numeric_limits<std::ptrdiff_t>::max() - kPageBytes) return nullptr;
    return std::aligned_alloc(alignment,
                              (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment);
  }
  void free(void* memory) noexcept override { std::free(memory); }
};

class Reached final : public DeviceEvent {
 public:
  Result<bool> is_reached() override { return true; }
  Status hold_back(ProgramStream) override { return {}; }
};

class HostStream final : public DeviceStream {
 public:
  Device device() const override { return {}; }
  const std::shared_ptr<DeviceMemory>& memory() const override { return memory_; }
  const std::shared_ptr<DeviceMemory>& host_memory() const override { return memory_; }

  Status copy(std::span<const ElementCopy> pieces, DType to, DType from, const kernels::Scale& by) override {
    for (const ElementCopy& piece : pieces) {
      if (to == from) {
        kernels::scale(to, piece.to, piece.from, piece.elements, by);
      } else if (to == kernels::wide_dtype(from)) {
        kernels::widen(from, piece.to, piece.from, piece.elements, by);
      } else {
        kernels::narrow(to, piece.to, piece.from, piece.elements, by);
      }
    }
    return {};
  }
  Status fill_neutral(DType dtype, ReduceOp op, void* into, std::size_t elements) override {
    kernels::fill_neutral(dtype, op, into, elements);
    return {};
  }
  Status clear(void* memory, std::size_t bytes) override {
    if (bytes != 0) std::memset(memory, 0, bytes);
    return {};
  }
  Status copy_to_host(void* host, const void* device, std::size_t bytes) override {
    if (bytes != 0) std::memcpy(host, device, bytes);
    return {};
  }
  Status copy_from_host(void* device, const void* host, std::size_t bytes) override {
    return copy_to_host(device, host, bytes);
  }
  Result<std::shared_ptr<DeviceEvent>> record() override {
    return std::shared_ptr<DeviceEvent>(std::make_shared<Reached>());
  }
  Status wait_for(const std::shared_ptr<DeviceEvent>&) override { return {}; }
  void retire(DeviceBuffer) override {}
  void keep(std::shared_ptr<void>) override {}
  Result<std::shared_ptr<DeviceEvent>> point_behind(ProgramStream) override { return record(); }
  Result<std::shared_ptr<DeviceEvent>> point_of(ProgramEvent) override { return record(); }

 private:
  std::shared_ptr<DeviceMemory> memory_ = std::make_shared<HostMemory>();
};

}  // namespace

DeviceBuffer allocate_from(const std::shared_ptr<DeviceMemory>& memory, std::size_t bytes) noexcept {
  return {memory->allocate(bytes), FreeDeviceMemory{memory}};
}

DeviceStream& host_stream() {
  // Never destroyed: operations may free their outputs until the end.
  alignas(HostStream) static std::byte memory[sizeof(HostStream)];
  static DeviceStream& stream = *::new (memory) HostStream;
  return stream;
}

}  // namespace dabke

// The buffer in which the tensors of a batch lie one behind the other, and travel as one.
#pragma once

#include <cstddef>

#include "runtime/backend/device.h"
#include "runtime/base/settings/fusion_settings.h"

namespace dabke {

/// Memory of a device that grows, and shrinks only by drop(). There is one per lane.
class FusionBuffer {
 public:
  /// `stream` outlives the buffer.
  explicit FusionBuffer(DeviceStream& stream = host_stream()) : stream_(&stream) {}

  /// Returns at least `bytes` bytes of memory, or code out_of_memory if there is none. The contents are lost
  /// when the buffer grows.
  Result<std::byte*> reserve(std::size_t bytes);
  /// Frees dropped memory, from now on, behind the work of this other stream of the same device.
  void work_on(DeviceStream& stream) { stream_ = &stream; }
  /// Uses memory of another owner from now on, until the buffer grows or is dropped.
  void borrow(std::byte* memory, std::size_t capacity);
  std::size_t capacity() const { return capacity_; }
  void drop();
  /// Returns the new size of a buffer of `capacity` bytes that must hold `bytes`. It grows by at least half,
  /// so that batches that grow little by little do not allocate one each.
  static std::size_t grown(std::size_t capacity, std::size_t bytes);

 private:
  DeviceStream* stream_;
  DeviceBuffer memory_;
  std::byte* borrowed_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace dabke

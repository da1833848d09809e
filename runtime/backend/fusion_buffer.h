// The buffer in which the tensors of a batch lie one behind the other, and travel as one.
#pragma once

#include <cstddef>

#include "runtime/backend/device.h"
#include "runtime/base/settings/fusion_settings.h"

namespace dabke {

/// Memory of a device that grows and never shrinks by itself. One a lane.
class FusionBuffer {
 public:
  /// `stream` outlives it.
  explicit FusionBuffer(DeviceStream& stream = host_stream()) : stream_(&stream) {}

  /// Memory of at least `bytes` bytes; code out_of_memory if there is none. What it held before is gone when
  /// it grew.
  Result<std::byte*> reserve(std::size_t bytes);
  /// What it drops is freed behind what this stream, of the same device, has been given.
  void work_on(DeviceStream& stream) { stream_ = &stream; }
  /// Memory of somebody else's from now on, until it grows or is dropped.
  void borrow(std::byte* memory, std::size_t capacity);
  std::size_t capacity() const { return capacity_; }
  void drop();
  /// How large one of `capacity` bytes becomes that is to hold `bytes`: half as much again, so that batches that grow little
  /// by little do not make a new one each.
  static std::size_t grown(std::size_t capacity, std::size_t bytes);

 private:
  DeviceStream* stream_;
  DeviceBuffer memory_;
  std::byte* borrowed_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace dabke

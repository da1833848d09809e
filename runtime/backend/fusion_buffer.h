// Packing: the tensors of a batch lie one behind the other in a fusion buffer, travel as one, are unpacked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/fusion_settings.h"
#include "runtime/base/status.h"

namespace dabke {

/// Page-aligned memory that grows and never shrinks by itself. One a lane.
class FusionBuffer {
 public:
  /// Memory of at least `bytes` bytes; code out_of_memory if there is none. What it held before is gone when
  /// it grew.
  Result<std::byte*> reserve(std::size_t bytes);
  std::size_t capacity() const { return capacity_; }
  void drop();

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t capacity_ = 0;
};

}  // namespace dabke

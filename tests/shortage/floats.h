// A tensor of ones for the C API.
#pragma once

#include <array>
#include <cstdint>

#include "dabke/dabke.h"

namespace dabke::test {

/// `Count` float32 elements, all 1.
template <int64_t Count>
struct Floats {
  std::array<float, Count> values;
  int64_t count = Count;
  DLTensor tensor{};
  Floats() {
    values.fill(1);
    tensor.data = values.data();
    tensor.device.device_type = kDLCPU;
    tensor.ndim = 1;
    tensor.dtype = {kDLFloat, 32, 1};
    tensor.shape = &count;
  }
};

}  // namespace dabke::test

#pragma once

#include <cstdint>

namespace dabke {

/// What the root decides by which tensors travel together, in bytes.
struct FusionSettings {
  std::int64_t threshold = 0;     // a batch's largest size; 0: nothing is fused
  std::uint32_t alone = 1 << 20;  // tensors from this size on travel by themselves, without a copy
  bool mixes_groups = true;       // whether groups travel with other tensors
};

}  // namespace dabke

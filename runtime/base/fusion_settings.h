#pragma once

#include <cstdint>

namespace dabke {

/// What the root decides by which tensors travel together, in bytes.
struct FusionSettings {
  std::int64_t threshold = 0;     // of a batch; 0: nothing is fused
  std::uint32_t alone = 1 << 20;  // from here on a tensor travels by itself, without a copy
  bool mixes_groups = true;       // with other tensors
};

}  // namespace dabke

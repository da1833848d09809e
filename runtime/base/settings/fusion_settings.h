#pragma once

#include <cstddef>
#include <cstdint>

namespace dabke {

/// What the root decides by which tensors travel together, in bytes.
struct FusionSettings {
  std::int64_t threshold = 0;     // a batch's largest size; 0: nothing is fused
  std::uint32_t alone = 1 << 20;  // tensors from this size on travel by themselves, without a copy
  bool mixes_groups = true;       // whether groups travel with other tensors
};

/// Entries begin at multiples of this, so that every one is aligned for SIMD.
inline constexpr std::size_t kFusionAlignment = 64;
constexpr std::size_t fusion_padded(std::size_t bytes) {
  return (bytes + kFusionAlignment - 1) / kFusionAlignment * kFusionAlignment;
}

}  // namespace dabke

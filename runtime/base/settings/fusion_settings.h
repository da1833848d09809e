#pragma once

#include <cstddef>
#include <cstdint>

namespace dabke {

/// The settings by which the root decides which tensors travel together. Sizes are in bytes.
struct FusionSettings {
  std::int64_t threshold = 0;     // the largest size of a batch; 0 turns fusion off
  std::uint32_t alone = 1 << 20;  // tensors of this size and more travel alone, without a copy
  bool mixes_groups = true;       // true if groups may travel with other tensors
};

/// Entries of the fusion buffer begin at multiples of this, so that each is aligned for SIMD.
inline constexpr std::size_t kFusionAlignment = 64;
constexpr std::size_t fusion_padded(std::size_t bytes) {
  return (bytes + kFusionAlignment - 1) / kFusionAlignment * kFusionAlignment;
}

}  // namespace dabke

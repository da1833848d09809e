// The rows (tid) of a rank in a merged trace, in the order in which they are shown.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/timeline/name_table.h"

namespace dabke::timeline::rows {

inline constexpr std::uint32_t kSteps = 1;
inline constexpr std::uint32_t kFirstLane = 2;
inline constexpr std::size_t kMostLanes =
    64;  // that overlap, of batches or of a tensor; beyond these they share the last
inline constexpr std::uint32_t kFirstThread = 1000;
inline constexpr std::uint32_t kFirstTensor = 100'000;
/// Tensors of a name that is in several sets, or that overlap: further rows of the same name.
inline constexpr std::uint32_t kFirstFurther = 1'000'000;
static_assert(kFirstTensor + most_of(NameKind::tensor) + 1 < kFirstFurther);
static_assert(kFirstThread + most_of(NameKind::thread) + 1 < kFirstTensor);

}  // namespace dabke::timeline::rows

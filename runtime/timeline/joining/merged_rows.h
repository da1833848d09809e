// The rows (tid) of a rank in a merged trace, in the order in which they are shown.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/timeline/name_table.h"

namespace dabke::timeline::rows {

/// The process (pid) of the whole job, with one row for the changes of an elastic job. No rank has so high a
/// number.
inline constexpr int kJobProcess = 1'000'000'000;
inline constexpr std::uint32_t kChanges = 1;

inline constexpr std::uint32_t kSteps = 1;
inline constexpr std::uint32_t kFirstLane = 2;
/// The most rows for batches that overlap, or for operations of a tensor that overlap. All beyond these share
/// the last.
inline constexpr std::size_t kMostLanes = 64;
inline constexpr std::uint32_t kFirstThread = 1000;
inline constexpr std::uint32_t kFirstTensor = 100'000;
/// Further rows with the name of a tensor, for names that are in several sets and for operations that
/// overlap.
inline constexpr std::uint32_t kFirstFurther = 1'000'000;
static_assert(kFirstTensor + most_of(NameKind::tensor) + 1 < kFirstFurther);
static_assert(kFirstThread + most_of(NameKind::thread) + 1 < kFirstTensor);

}  // namespace dabke::timeline::rows

// What a rank leaves in the store when init fails. Ranks wait in init for ranks that wait for others. So
// whoever gives up says why, and the others name the rank that did not come, and not the one that waited for
// it.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/world.h"
#include "runtime/transport/store.h"

namespace dabke {

/// Leaves why init failed on this rank, for those that wait for it.
void tell_init_failure(Store& store, Rank rank, const Status& why);

/// Ranks that did not come, to be named in an error.
struct AbsentRanks {
  std::string who;  // "rank 2 on host-b, rank 3 on host-b and 5 more"
  std::string
      reported;  // what the first of them that gave up has left: " (rank 2 gave up: ...)"; may be empty
};
/// How long those that began to wait at about the same time are given to say for whom.
inline constexpr Duration kInitVerdict = std::chrono::seconds(1);
/// The same for one that does so only when it has given that time to others.
inline constexpr Duration kSecondInitVerdict = std::chrono::milliseconds(2500);

/// `absent` is not empty. Waits a moment for what they have to say.
AbsentRanks describe_absent(Store& store, const World& world, std::span<const Rank> absent,
                            Duration patience = kInitVerdict);

}  // namespace dabke

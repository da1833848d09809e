// What a rank leaves in the store when init fails. Ranks wait in init for ranks that wait for others. So
// whoever gives up says why, and the others name the rank that did not come, and not the one that waited for
// it.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/world.h"
#include "runtime/store/store.h"

namespace dabke::store {

/// Leaves why init failed on this rank, for those that wait for it, and for everybody where it is the first.
void report_init_failure(Store& store, Rank rank, const Status& why);
/// Leaves for whom this rank has waited in vain, before it listens to what others have to say of that.
void report_vain_wait(Store& store, Rank rank, const Status& why);

/// Why init failed on `name`, "rank 3 on host-b", as the others are told: as it is where it names another rank that was
/// lost, or has the words of another rank that failed.
Status init_failure_of(const std::string& name, const Status& why);
/// What the first rank has left whose init failed, as init_failure_of() says it. Never of code timeout.
Status first_init_failure(Store& store);
/// The store's trouble, for which this waits so long: the end of a link is often seen before its cause is told.
Status await_trouble(Store& store, Duration patience);
/// What is said of a rank whose process has ended while others wait for it in init.
Status process_ended_in_init(Rank rank, const std::vector<std::string>& hosts, std::uint32_t pid);
/// The same where only its link has.
Status link_ended_in_init(Rank rank, const std::vector<std::string>& hosts);

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

}  // namespace dabke::store

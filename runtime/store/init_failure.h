// The note that a rank leaves in the store when its init fails. Ranks wait in init for ranks that wait for
// others. So a rank that gives up leaves the reason. The others then name the rank that did not come, and not
// the one that waited for it.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/world.h"
#include "runtime/store/store.h"

namespace dabke::store {

/// Leaves the reason why init failed on this rank, for ranks that wait for it. The first failure is left for
/// all ranks.
void report_init_failure(Store& store, Rank rank, const Status& why);
/// The key in the store of an epoch under which the first failure is left for all ranks, and the value that
/// leaves `why` there.
std::pair<std::string, std::string> init_failure_note(const Status& why);
/// Leaves the ranks for which this rank has waited in vain, before it reads what the others have left.
void report_vain_wait(Store& store, Rank rank, const Status& why);

/// The reason why init failed on `name`, "rank 3 on host-b", in the words for the others. It stays as it is
/// if it names another rank that was lost, or has the words of another rank that failed.
Status init_failure_of(const std::string& name, const Status& why);
/// The reason of the first rank whose init failed, in the words of init_failure_of(); ok if there is none.
/// Never of code timeout.
Status first_init_failure(Store& store);
/// The store's trouble, for which it waits up to `patience`: the end of a link is often seen before its cause
/// is reported.
Status await_trouble(Store& store, Duration patience);
/// The error for a rank whose process has ended while others wait for it in init.
Status process_ended_in_init(Rank rank, const std::vector<std::string>& hosts, std::uint32_t pid);
/// The error for a rank of which only the link has ended.
Status link_ended_in_init(Rank rank, const std::vector<std::string>& hosts);

/// The ranks that did not come, as an error names them.
struct AbsentRanks {
  std::string who;       // "rank 2 on host-b, rank 3 on host-b and 5 more"
  std::string reported;  // the first report of those that gave up, as " (rank 2 gave up: ...)"; may be empty
};
/// The time in which ranks that began to wait at about the same time report for whom they wait.
inline constexpr Duration kInitVerdict = std::chrono::seconds(1);
/// The time for a rank that reports only after it has given that time to others.
inline constexpr Duration kSecondInitVerdict = std::chrono::milliseconds(2500);

/// `absent` is not empty. Waits a moment for their reports.
AbsentRanks describe_absent(Store& store, const World& world, std::span<const Rank> absent,
                            Duration patience = kInitVerdict);

}  // namespace dabke::store

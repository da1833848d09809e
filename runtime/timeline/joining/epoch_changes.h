// The changes between the epochs of an elastic job: when each began, when it ended, and what changed. Pure.
//
//  1. A change begins when the first survivor of the epoch before leaves it, or when the first tensor of a
//     survivor fails, if that is earlier. Survivors are the ranks of the epoch before that are in this one.
//  2. It ends with the first batch or step of the new epoch. If that has none, it ends where the next change
//     begins, and without a next change with the last record.
//  3. A change that was not recorded is left out: the recording had stopped before it, or began after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/timeline/epoch_roster.h"
#include "runtime/timeline/joining/intervals.h"
#include "runtime/timeline/record.h"

namespace dabke::timeline {

/// The moments of a rank in an epoch, as it records them.
struct EpochMoments {
  std::optional<std::int64_t> work_ns;   // the first batch or step
  std::optional<std::int64_t> error_ns;  // the first error after the last tensor that ended well
  std::optional<std::int64_t> leave_ns;  // the rank leaves the epoch

  void take(const Record& record);
};

/// A rank in an epoch; all times by the one clock.
struct RankInEpoch {
  std::uint64_t epoch = 1;
  Rank rank = 0;
  EpochRoster roster;
  EpochMoments moments;
  std::int64_t last_ns = 0;
};

struct EpochChange {
  std::uint64_t epoch = 0;  // that begins
  Interval when;
  std::string text;  // "rank 3 (host b) was killed by SIGKILL (signal 9); 3 of 4 ranks go on"
  bool operator==(const EpochChange&) const = default;
};

/// `ranks` are sorted by epoch. The changes do not overlap, and are sorted.
std::vector<EpochChange> changes_of(const std::vector<RankInEpoch>& ranks);

}  // namespace dabke::timeline

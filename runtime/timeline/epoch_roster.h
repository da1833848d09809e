// The members of an epoch of an elastic job, and the members that were lost since the epoch before. Each rank
// writes them into its file of records. Pure.
//
// The text has a line for each:
//   member FORMER_RANK HOST       by rank; the rank in the epoch before, or -1 for a new one
//   lost RANK HOST WHY            the rank in the epoch before; `why` is the rest of the line
//   late                          the file does not begin with the epoch
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/world.h"

namespace dabke::timeline {

struct EpochRoster {
  struct Member {
    Rank former_rank = -1;
    std::string host;
    bool operator==(const Member&) const = default;
  };
  struct Lost {
    Rank rank = 0;
    std::string host;
    std::string why;  // one line, such as "was killed by SIGKILL (signal 9)"
    bool operator==(const Lost&) const = default;
  };
  std::vector<Member> members;  // by rank
  std::vector<Lost> lost;
  bool is_late = false;  // recording began later than the epoch
  bool operator==(const EpochRoster&) const = default;
};

std::string to_text(const EpochRoster& roster);
/// None if the text makes no sense.
std::optional<EpochRoster> read_epoch_roster(std::string_view text);

/// Returns the change since the epoch before, in words: "rank 3 (host b) was killed by SIGKILL (signal 9);
/// rank 3 (host c) joins; 3 of 4 ranks go on". Without the roster of the epoch before, the text lacks the
/// ranks that have left in good order.
std::string change_text(const EpochRoster& roster, const EpochRoster* before);

}  // namespace dabke::timeline

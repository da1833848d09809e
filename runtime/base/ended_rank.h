// The record that dabkerun leaves in its job's store when the process of a rank has ended. The ranks
// themselves cannot find out how a process ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/world.h"

namespace dabke {

/// Rank and size as dabkerun counts them. A job of other processes, or with other numbers, must ignore the
/// record.
struct EndedRank {
  Rank rank = -1;
  int size = 0;
  std::int64_t pid = 0;
  int status = 0;  // exit status as a shell gives it
  std::string host;
};

/// Keys below the job's id. kFirstEndedKey holds the record of the rank that ended first.
inline constexpr const char* kFirstEndedKey = "ended/first";
std::string ended_key(Rank rank);

std::string to_text(const EndedRank& ended);
std::optional<EndedRank> read_ended_rank(const std::string& text);

}  // namespace dabke

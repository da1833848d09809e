// What dabkerun leaves in the store of its job of ranks whose processes have ended: their ranks cannot know how.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/world.h"

namespace dabke {

/// By dabkerun's own count. A job of other processes, or with other numbers, is none of those that it has started.
struct EndedRank {
  Rank rank = -1;
  int size = 0;
  std::int64_t pid = 0;
  int status = 0;  // as a shell gives it
  std::string host;
};

/// Below the job's id. The first is the first of all ranks.
inline constexpr const char* kFirstEndedKey = "ended/first";
std::string ended_key(Rank rank);

std::string to_text(const EndedRank& ended);
std::optional<EndedRank> read_ended_rank(const std::string& text);

}  // namespace dabke

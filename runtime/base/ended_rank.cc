#include "runtime/base/ended_rank.h"

#include <sstream>

#include <fmt/format.h>

namespace dabke {

std::string ended_key(Rank rank) { return fmt::format("ended/{}", rank); }

std::string to_text(const EndedRank& ended) {
  return fmt::format("{} {} {} {} {}", ended.status, ended.rank, ended.size, ended.pid, ended.host);
}

std::optional<EndedRank> read_ended_rank(const std::string& text) {
  EndedRank ended;
  std::istringstream in(text);
  if (!(in >> ended.status >> ended.rank >> ended.size >> ended.pid >> ended.host)) return std::nullopt;
  return ended;
}

}  // namespace dabke

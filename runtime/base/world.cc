#include "runtime/base/world.h"

#include <fmt/format.h>

namespace dabke {

std::string name_of_rank(Rank rank, const std::vector<std::string>& hosts) {
  const auto at = static_cast<std::size_t>(rank);
  if (at >= hosts.size() || hosts[at].empty()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} on {}", rank, hosts[at]);
}

}  // namespace dabke

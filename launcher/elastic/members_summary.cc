#include "launcher/elastic/members_summary.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/base/text/counted.h"

namespace dabke::launcher {
namespace {

/// More slots in the same state are only counted.
constexpr std::size_t kMostNamed = 8;

}  // namespace

std::string text_of(const MembersSummary& summary) {
  std::string text = counted(summary.members, "rank");
  if (summary.between_epochs > 0) {
    text += fmt::format(", {} between two epochs", summary.between_epochs == summary.members
                                                       ? "all"
                                                       : std::to_string(summary.between_epochs));
  }
  const auto add = [&](const char* state, const std::vector<std::string>& slots) {
    if (slots.empty()) return;
    const std::size_t named = std::min(slots.size(), kMostNamed);
    const std::vector<std::string> names(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(named));
    text += fmt::format("; {}: {}", state, fmt::join(names, ", "));
    if (named < slots.size()) text += fmt::format(" and {} more", slots.size() - named);
  };
  add("starting", summary.starting);
  add("waiting", summary.waiting);
  add("leaving", summary.leaving);
  add("left out", summary.left_out);
  return text;
}

}  // namespace dabke::launcher

#include "runtime/base/text/step_range.h"

#include <charconv>

namespace dabke {

std::optional<StepRange> step_range(std::string_view text) {
  StepRange range;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, range.first);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ':') return std::nullopt;
  const auto last = std::from_chars(first.ptr + 1, end, range.last);
  if (last.ec != std::errc() || last.ptr != end || range.last < range.first) return std::nullopt;
  return range;
}

}  // namespace dabke

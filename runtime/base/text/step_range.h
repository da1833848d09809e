// Which training steps are meant: "100:110".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dabke {

/// Both are meant, too.
struct StepRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  bool operator==(const StepRange&) const = default;
};

/// "100:110"; nothing where the text is something else, or the last step comes before the first.
std::optional<StepRange> step_range(std::string_view text);

}  // namespace dabke

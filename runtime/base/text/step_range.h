// A range of training steps, such as "100:110".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dabke {

/// A range that includes both its ends.
struct StepRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  bool operator==(const StepRange&) const = default;
};

/// Parses "100:110". Returns nothing if the text has another form, or if the last step is before the first.
std::optional<StepRange> step_range(std::string_view text);

}  // namespace dabke

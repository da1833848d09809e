// The root's reports on names that do not become ready: the whole story once, and from then on a line that
// refers to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/clock.h"

namespace dabke::negotiation {

class StallLog {
 public:
  struct Reported {
    std::string what;  // the wait's key: two waits with different keys are independent
    TimePoint at{};    // when the last line was written
    TimePoint full_at{};
    std::string story;  // the missing ranks and what they do instead; any change is reported again
  };

  /// Returns the report on the wait that has lasted since `since`; null if there is none. A wait that has
  /// ended and begun again is another wait.
  const Reported* find(const std::string& what, TimePoint since) const;
  void note(const std::string& what, const std::string& story, bool in_full, TimePoint now);

 private:
  std::vector<Reported> reported_;  // the oldest first
};

}  // namespace dabke::negotiation

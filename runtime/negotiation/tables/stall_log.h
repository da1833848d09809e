// What the root has told of names that do not become ready: the whole story once, and from then on a line
// that refers to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/clock.h"

namespace dabke::negotiation {

class StallLog {
 public:
  struct Reported {
    std::string what;  // the wait's key: two waits that differ in it have nothing to do with each other
    TimePoint at{};    // when the last line was written
    TimePoint full_at{};
    std::string story;  // who is missing and what these do instead: when it changes it is told again
  };

  /// What was told of the wait that has lasted since `since`; null: nothing. One that has ended and begun
  /// again is another.
  const Reported* find(const std::string& what, TimePoint since) const;
  void note(const std::string& what, const std::string& story, bool in_full, TimePoint now);

 private:
  std::vector<Reported> reported_;  // the oldest first
};

}  // namespace dabke::negotiation

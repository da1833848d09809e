// Shows text that several ranks print in nearly the same words in full only once: all of them report why a
// job has failed.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "runtime/base/clock.h"

namespace dabke::launcher {

class RepeatedTexts {
 public:
  /// Returns a line of a rank's standard error in the form to show. Applies to lines of Dabke's log and of
  /// its exceptions. If another line contained most of it within the last ten seconds, that part ends in "...
  /// (as rank 0 reported)".
  std::string shown(std::string_view line, int rank, TimePoint now);

 private:
  struct Report {
    std::string text;
    int rank = 0;
    TimePoint at{};
  };
  std::deque<Report> reports_;  // the newest last
};

}  // namespace dabke::launcher

// What several ranks say in nearly the same words is shown in full once: all of them tell why a job has failed.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "runtime/base/clock.h"

namespace dabke::launcher {

class RepeatedTexts {
 public:
  /// A line of a rank's standard error as it is to be shown. Where another line has told most of it within
  /// the last ten seconds, that part of a line of Dabke's log, or of one of its exceptions, ends in "... (as
  /// rank 0 has told)".
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

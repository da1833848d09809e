// The lines that dabkerun itself writes to stderr while its job runs, and the count of all lines that were
// shown.
#pragma once

#include <cstddef>
#include <string_view>

#include "launcher/output/console.h"

namespace dabke::launcher {

class JobLog {
 public:
  explicit JobLog(Console& console) : console_(console) {}

  /// Writes one line, behind "dabkerun: ".
  void log(std::string_view text);
  /// Counts a line that a rank has written. Returns the number of lines before it.
  std::size_t count_line() { return lines_++; }
  /// The number of lines so far, of ranks and of dabkerun.
  std::size_t lines() const { return lines_; }

 private:
  Console& console_;
  std::size_t lines_ = 0;
};

}  // namespace dabke::launcher

// The last lines that a rank wrote, for the end of a job that failed.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dabke {

class LastLines {
 public:
  /// Keeps `line`, without its terminator and cut to kLongest bytes, and forgets the oldest of more than kCount.
  void push(std::string_view line);
  /// Oldest first.
  std::vector<std::string> all() const;

  static constexpr std::size_t kCount = 10;
  static constexpr std::size_t kLongest = 500;  // bytes

 private:
  std::array<std::string, kCount> lines_;  // a ring: what comes next goes to pushed_ % kCount
  std::size_t pushed_ = 0;
};

}  // namespace dabke

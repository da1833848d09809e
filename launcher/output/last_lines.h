// The last lines that a rank wrote, for the end of a job that failed.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dabke::launcher {

class LastLines {
 public:
  /// Stores `line`, without its terminator and cut to kLongest bytes, and drops the oldest of more than
  /// kCount. `at` is the number of lines of all ranks before it.
  void push(std::string_view line, std::size_t at);
  /// Oldest first.
  std::vector<std::string> all() const;
  /// The number of lines before the oldest.
  std::size_t begin_at() const { return at_[pushed_ < kCount ? 0 : pushed_ % kCount]; }

  static constexpr std::size_t kCount = 10;
  static constexpr std::size_t kLongest = 500;  // bytes

 private:
  std::array<std::size_t, kCount> at_{};
  std::array<std::string, kCount> lines_;  // a ring: the next goes to pushed_ % kCount
  std::size_t pushed_ = 0;
};

}  // namespace dabke::launcher

// The members that an elastic job has lost, with their times. Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"

namespace dabke::launcher {

class JobLosses {
 public:
  /// `text` names the rank of that time, the reason and the time of day.
  void add(int rank, TimePoint time, std::string text);
  /// Called when the next epoch opens: losses from now on are losses of that epoch.
  void begin_epoch() { of_epoch_.clear(); }

  /// The time of the current epoch's first loss; nothing if there is none.
  std::optional<TimePoint> first_time() const;
  /// The text for a rank that the current epoch has lost; empty: it has not.
  std::string text_of(int rank) const;
  /// In all epochs.
  std::size_t count() const { return count_; }
  /// A line for each of the last losses of all epochs, the oldest first, and one with the number of those
  /// before.
  std::vector<std::string> lines() const;

 private:
  struct Loss {
    int rank = 0;
    TimePoint time;
    std::string text;
  };
  std::vector<Loss> of_epoch_;
  std::deque<std::string> last_;
  std::size_t count_ = 0;
};

}  // namespace dabke::launcher

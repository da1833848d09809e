// Virtual time: events run one after the other, each at its time. Events of the same time run in the order in
// which they were scheduled.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"

namespace dabke::test {

class EventQueue {
 public:
  TimePoint now() const { return now_; }
  /// The number of events that have run.
  std::uint64_t events() const { return events_; }

  void schedule(TimePoint when, std::function<void()> run) {
    queue_.push({std::max(when, now_), sequence_++, std::move(run)});
  }
  void after(Duration delay, std::function<void()> run) { schedule(now_ + delay, std::move(run)); }
  /// When the next event runs; kNever if there is none.
  TimePoint next_at() const { return queue_.empty() ? kNever : queue_.top().at; }
  /// Runs the next event, which there must be.
  void run_next() {
    Event event = std::move(const_cast<Event&>(queue_.top()));
    queue_.pop();
    now_ = event.at;
    ++events_;
    event.run();
  }

 private:
  struct Event {
    TimePoint at;
    std::uint64_t sequence;
    std::function<void()> run;
    bool operator>(const Event& other) const {
      return std::pair(at, sequence) > std::pair(other.at, other.sequence);
    }
  };

  TimePoint now_{std::chrono::hours(1)};
  std::uint64_t sequence_ = 0;
  std::uint64_t events_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
};

}  // namespace dabke::test

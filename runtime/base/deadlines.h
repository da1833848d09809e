// The times at which the parts of an object have work to do by themselves, and the earliest of these times.
//
//   1. Each part has a Deadline, a row of the list, and sets it whenever its time changes.
//   2. The driver of the parts compares only next(), and sleeps until then.
//   3. run() calls the parts whose time has come, in the order in which their rows were made. A row is
//      switched off before it is called, so a part that sets no new time is not called again.
// A list can be one row of another list. Not thread-safe.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"

namespace dabke {

class Deadline;

class Deadlines {
 public:
  Deadlines() = default;
  Deadlines(const Deadlines&) = delete;
  Deadlines& operator=(const Deadlines&) = delete;

  /// The earliest time of all rows; kNever if none is set.
  TimePoint next() const { return next_; }
  void run(TimePoint now) {
    if (now >= next_) run_due(now);
  }
  /// Sets every row to kNever.
  void clear();
  /// Keeps `row`, which belongs to another list, at next(). The function of that row calls run().
  void report_to(Deadline& row);

 private:
  friend class Deadline;
  void run_due(TimePoint now);
  void changed(TimePoint before, TimePoint at);
  void set_next(TimePoint next);

  std::vector<Deadline*> rows_;
  TimePoint next_ = kNever;
  Deadline* reports_to_ = nullptr;
};

class Deadline {
 public:
  using Act = std::function<void(TimePoint now)>;

  /// The list must outlive its rows while any of them is set. An empty `act` only wakes the driver.
  explicit Deadline(Deadlines& list, Act act = {}) : list_(list), act_(std::move(act)) {
    list_.rows_.push_back(this);
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  TimePoint at() const { return at_; }
  bool is_set() const { return at_ != kNever; }
  void set(TimePoint at) {
    if (at != at_) list_.changed(std::exchange(at_, at), at);
  }
  /// Sets the time unless an earlier one is set.
  void set_by(TimePoint at) {
    if (at < at_) set(at);
  }
  void clear() { set(kNever); }

 private:
  friend class Deadlines;
  Deadlines& list_;
  const Act act_;
  TimePoint at_ = kNever;
};

inline void Deadlines::run_due(TimePoint now) {
  for (Deadline* const row : rows_) {
    if (now < row->at_) continue;
    row->clear();
    if (row->act_) row->act_(now);
  }
}

inline void Deadlines::clear() {
  for (Deadline* const row : rows_) row->at_ = kNever;
  set_next(kNever);
}

inline void Deadlines::report_to(Deadline& row) {
  reports_to_ = &row;
  row.set(next_);
}

inline void Deadlines::changed(TimePoint before, TimePoint at) {
  if (at < next_) {
    set_next(at);
  } else if (before == next_) {
    set_next((*std::ranges::min_element(rows_, {}, &Deadline::at_))->at_);
  }
}

inline void Deadlines::set_next(TimePoint next) {
  next_ = next;
  if (reports_to_ != nullptr) reports_to_->set(next);
}

}  // namespace dabke

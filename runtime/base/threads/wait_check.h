// A function of the caller that decides, during a wait, whether the wait goes on.
#pragma once

#include <functional>
#include <string>

#include <fmt/format.h>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace dabke {

/// Called every 50 ms, only by the thread that waits, which then holds nothing that others need. Once it has
/// stopped the wait, it is not called again.
class WaitCheck {
 public:
  static constexpr Duration kEvery = std::chrono::milliseconds(50);

  /// `stops` returns true to end the wait. `names` returns what is waited for, such as "allreduce 'x'".
  WaitCheck(std::function<bool()> stops, std::function<std::string()> names)
      : stops_(std::move(stops)), names_(std::move(names)) {}

  /// The time of its next call.
  TimePoint due() const { return due_; }
  /// Calls it if that is due. True if the wait must end.
  bool stops() {
    if (has_stopped_ || Clock::now() < due_) return has_stopped_;
    has_stopped_ = stops_();
    due_ = Clock::now() + kEvery;
    return has_stopped_;
  }
  bool has_stopped() const { return has_stopped_; }
  /// The error of the wait that it has stopped.
  Status stopped() const { return status_of("the operation goes on, and can be waited for again"); }
  /// For a stop that comes while this thread itself runs an operation with other ranks. Returns the error
  /// that ends the job. The wait then goes on until the job has ended here.
  Status end_job() {
    has_stopped_ = false;
    due_ = kNever;
    return status_of("this rank was running it, and the others cannot go on without it");
  }

 private:
  Status status_of(std::string_view meaning) const {
    return {Code::interrupted,
            fmt::format("the wait for {} was stopped by its check; {}", names_(), meaning)};
  }

  const std::function<bool()> stops_;
  const std::function<std::string()> names_;
  TimePoint due_ = Clock::now() + kEvery;
  bool has_stopped_ = false;
};

}  // namespace dabke

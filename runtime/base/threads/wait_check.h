// What a caller's function says during a wait: whether it goes on.
#pragma once

#include <functional>
#include <string>

#include <fmt/format.h>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace dabke {

/// Asked by the thread that waits, and by no other, every 50 ms; nobody holds anything meanwhile that others
/// need. Once it has said stop, it is asked no more.
class WaitCheck {
 public:
  static constexpr Duration kEvery = std::chrono::milliseconds(50);

  /// `stops`: whether the wait is to end. `names` what is waited for: "allreduce 'x'".
  WaitCheck(std::function<bool()> stops, std::function<std::string()> names)
      : stops_(std::move(stops)), names_(std::move(names)) {}

  /// When it is to be asked next.
  TimePoint due() const { return due_; }
  /// Asks it, when that is due. Whether the wait is to end.
  bool stops() {
    if (has_stopped_ || Clock::now() < due_) return has_stopped_;
    has_stopped_ = stops_();
    due_ = Clock::now() + kEvery;
    return has_stopped_;
  }
  bool has_stopped() const { return has_stopped_; }
  /// How the wait ends that it has stopped.
  Status stopped() const { return status_of("the operation goes on, and can be waited for again"); }
  /// The stop came while the thread itself ran what others take part in: that ends the job with this, and the
  /// wait goes on until the job's end has come here.
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

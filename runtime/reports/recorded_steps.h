// Decides when a timeline of some steps starts and stops (DABKE_TIMELINE_STEPS).
#pragma once

#include <cstdint>

#include "runtime/base/text/step_range.h"

namespace dabke::reports {

/// Ranks do not mark a step at the same moment. So the timeline starts a step early and stops a step late.
/// Then the first and the last step have both ends on every rank.
class RecordedSteps {
 public:
  enum class Then : std::uint8_t { nothing, start, stop };

  /// `is_first`: no step was marked before. Later epochs of an elastic job go on with later steps.
  explicit RecordedSteps(StepRange steps, bool is_first = true) : steps_(steps), is_first_(is_first) {}

  /// True if the timeline starts before any step has ended.
  bool starts_with_job() const { return is_first_ && steps_.first < 2; }
  /// Returns what to do when rank 0 has ended a step. Not every step needs a mark.
  Then ended(std::uint64_t step) {
    if (is_over_) return Then::nothing;
    if (step > steps_.last) {
      is_over_ = true;
      return has_started() ? Then::stop : Then::nothing;
    }
    if (has_started() || step + 2 < steps_.first) return Then::nothing;
    has_started_ = true;
    return Then::start;
  }
  bool has_started() const { return has_started_ || starts_with_job(); }

 private:
  const StepRange steps_;
  const bool is_first_;
  bool has_started_ = false;
  bool is_over_ = false;
};

}  // namespace dabke::reports

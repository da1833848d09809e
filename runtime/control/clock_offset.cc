#include "runtime/control/clock_offset.h"

#include <algorithm>
#include <cmath>

namespace dabke::control {

void ClockComparison::take(const Beat& beat, TimePoint now) {
  const HostTime at = host_time(now);
  heard_ = beat;
  heard_at_ = at;
  if (beat.heard_sent == 0) return;
  Sample sample;
  sample.at = beat.heard_sent + (at - beat.heard_sent) / 2;
  sample.ahead = ((beat.heard_at - beat.heard_sent) + (beat.sent - at)) / 2;
  sample.delay = (at - beat.heard_sent) - (beat.sent - beat.heard_at);
  sample.held = beat.sent - beat.heard_at;
  if (error_of(sample, {}) < 0) return;  // impossible for two clocks that only go forward
  if (in_last_ == kBlock) {
    in_last_ = 0;
    if (best_.size() == kMostBlocks) best_.pop_front();
    best_.push_back(sample);
  } else if (sample.delay <= best_.back().delay) {
    best_.back() = sample;
  }
  ++in_last_;
}

/// Half of the time of both ways by our clock. The other clock gained while the neighbour held the beat. This
/// gain is known as well as the drift is.
double ClockComparison::error_of(const Sample& sample, const Drift& drift) {
  const auto held = static_cast<double>(sample.held);
  return (static_cast<double>(sample.delay) + held * (drift.rate + drift.error)) / 2;
}

/// The slope of the least-squares line through the blocks, and the most that their errors together can change
/// it.
ClockComparison::Drift ClockComparison::drift() const {
  // Differences to the first sample, which a double holds exactly.
  const auto since = [this](const Sample& sample) {
    return static_cast<double>(sample.at - best_.front().at);
  };
  const auto gained = [this](const Sample& sample) {
    return static_cast<double>(sample.ahead - best_.front().ahead);
  };
  double middle = 0;
  for (const Sample& sample : best_) middle += since(sample) / static_cast<double>(best_.size());
  double together = 0, square = 0, errors = 0;
  for (const Sample& sample : best_) {
    const double from_middle = since(sample) - middle;
    together += from_middle * gained(sample);
    square += from_middle * from_middle;
    errors += std::abs(from_middle) * error_of(sample, {});
  }
  if (square == 0 || errors / square + kDriftChange >= kMostDrift) return {};
  return {std::clamp(together / square, -kMostDrift, kMostDrift), errors / square + kDriftChange};
}

std::optional<ClockOffset> ClockComparison::offset(TimePoint now) const {
  if (best_.empty()) return std::nullopt;
  const Sample& last = best_.back();
  const Drift drifts = drift();
  const auto age = static_cast<double>(host_time(now) - last.at);
  const auto nanoseconds = [](double count) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(std::llround(count)));
  };
  return ClockOffset{std::chrono::nanoseconds(last.ahead) + nanoseconds(age * drifts.rate),
                     nanoseconds(error_of(last, drifts) + std::abs(age) * drifts.error), drifts.rate};
}

}  // namespace dabke::control

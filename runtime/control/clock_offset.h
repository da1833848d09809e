// How far a neighbour's clock is from ours, and how fast it drifts, measured with beats.
//
// A beat to the neighbour and one back give four times:
//   t1  we sent ours, by our clock
//   t2  ours came, by their clock
//   t3  they sent theirs, by their clock
//   t4  theirs came, by our clock
// Their clock is ((t2 - t1) + (t3 - t4)) / 2 ahead of ours. The error is at most half of the time of both
// ways, (t4 - t1) - (t3 - t2) (RFC 5905, section 8). A slow way therefore gives little information, so:
//   1. In each block of beats, only the one with the least delay counts.
//   2. A line through these beats of the last blocks gives the drift, once the line's error is at most the
//      error that is assumed without a line.
//   3. The newest of these beats, moved on by the drift, gives the offset. Half its delay is the error, which
//      grows with its age.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "runtime/control/beat.h"

namespace dabke::control {

/// The offset at some moment of our clock.
struct ClockOffset {
  Duration ahead{};  // their clock less ours
  Duration error{};  // `ahead` is right to within this
  double drift = 0;  // what their clock gains on ours, in seconds per second; 0 until it is known
};

class ClockComparison {
 public:
  /// Takes a beat of the neighbour that came at `now`.
  void take(const Beat& beat, TimePoint now);
  /// Returns the next beat for the neighbour.
  Beat answer(TimePoint now) const { return {host_time(now), heard_.sent, heard_at_}; }
  /// Returns nothing until a beat has gone each way.
  std::optional<ClockOffset> offset(TimePoint now) const;

 private:
  static constexpr std::size_t kBlock = 8;        // beats
  static constexpr std::size_t kMostBlocks = 64;  // at a beat a second, over eight minutes
  // The most that a clock may gain on another per second: each may be wrong by 100 us. And the most by which
  // that may change.
  static constexpr double kMostDrift = 200e-6;
  static constexpr double kDriftChange = 15e-6;

  struct Sample {
    HostTime at = 0;  // our clock, in the middle between both ways
    HostTime ahead = 0;
    HostTime delay = 0;  // of both ways, if their clock is as fast as ours
    HostTime held = 0;   // between the two ways
  };

  struct Drift {
    double rate = 0;
    double error = kMostDrift;
  };
  Drift drift() const;
  static double error_of(const Sample& sample, const Drift& drift);

  Beat heard_;
  HostTime heard_at_ = 0;
  std::deque<Sample> best_;  // one per block, the oldest first; the last block may still grow
  std::size_t in_last_ = kBlock;
};

}  // namespace dabke::control

// How far a neighbour's clock is from ours, and how fast it drifts, learned from beats.
//
// Of a beat to and fro we know four times: ours when we sent (t1), theirs when it came (t2) and when they sent (t3),
// ours when that came (t4). Their clock is ((t2 - t1) + (t3 - t4)) / 2 ahead of ours, give or take half of what both
// ways took, (t4 - t1) - (t3 - t2) (RFC 5905, section 8). A way that took long tells little, so
//   1. of each block of beats the one with the least delay counts;
//   2. a line through those of the last blocks is the drift, once their errors leave no more of it open than no line would;
//   3. the newest of them, moved on by the drift, is the offset, and half its delay is the error, which grows with its age.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "runtime/control/beat.h"

namespace dabke::control {

/// At some moment of our clock.
struct ClockOffset {
  Duration ahead{};  // their clock less ours
  Duration error{};  // it is right to within this
  double drift = 0;  // what theirs gains on ours, seconds a second; 0 until it is known
};

class ClockComparison {
 public:
  /// A beat of theirs came at `now`.
  void take(const Beat& beat, TimePoint now);
  /// What the next beat to them is to say.
  Beat answer(TimePoint now) const { return {host_time(now), heard_.sent, heard_at_}; }
  /// Nothing until a beat has gone to and fro.
  std::optional<ClockOffset> offset(TimePoint now) const;

 private:
  static constexpr std::size_t kBlock = 8;        // beats
  static constexpr std::size_t kMostBlocks = 64;  // at a beat a second, over eight minutes
  // What a clock may gain on another in a second: two that are each wrong by 100 us; and by how much that may change.
  static constexpr double kMostDrift = 200e-6;
  static constexpr double kDriftChange = 15e-6;

  struct Sample {
    HostTime at = 0;  // our clock, in the middle between both ways
    HostTime ahead = 0;
    HostTime delay = 0;  // of both ways, as far as their clock goes as fast as ours
    HostTime held = 0;   // from the one way to the other
  };

  struct Drift {
    double rate = 0;
    double error = kMostDrift;
  };
  Drift drift() const;
  static double error_of(const Sample& sample, const Drift& drift);

  Beat heard_;
  HostTime heard_at_ = 0;
  std::deque<Sample> best_;  // of each block, the oldest first; the last block may still grow
  std::size_t in_last_ = kBlock;
};

}  // namespace dabke::control

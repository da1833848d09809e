// All ranks on one clock: that of the host of the lowest rank that has left records.
//
// Ranks of one kernel and time namespace share CLOCK_MONOTONIC, and need nothing. Of the others a rank with a parent on
// another host has compared its clock with that rank's, once a second, and said by how much it may be wrong
// (runtime/control/clock_offset.h); from host to host they lead to the first. Where no comparison leads there, the hosts'
// CLOCK_REALTIME must do, and nobody knows how wrong it is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/timeline/joining/record_file.h"

namespace dabke::timeline {

/// What a rank's `clock` records say.
struct ClockSample {
  std::int64_t at_ns = 0;
  std::int64_t ahead_ns = 0;  // the parent's clock less ours
  std::int64_t error_ns = 0;
  Rank parent = 0;
};

struct ClockFacts {
  RecordFile::Origin origin;
  std::vector<ClockSample> samples;
};

class AlignedClock {
 public:
  enum class Source : std::uint8_t { same, compared, wall };

  /// The moment by the one clock.
  std::int64_t at(std::int64_t time_ns) const;

  Source source() const { return source_; }
  /// The one clock less this one, in the middle of what was compared.
  std::int64_t offset_ns() const;
  /// It is right to within this, at the worst; nothing: nobody knows.
  std::optional<std::int64_t> error_ns() const;

 private:
  using Samples = std::vector<ClockSample>;
  friend std::vector<AlignedClock> align_clocks(const std::vector<ClockFacts>& ranks);

  Source source_ = Source::same;
  std::vector<std::shared_ptr<const Samples>> hops_;  // towards the one clock; none is empty
  std::int64_t wall_offset_ns_ = 0;
};

/// "same", "compared", "wall"
std::string_view name_of(AlignedClock::Source source);

/// One each, in their order. The first one's clock is the one.
std::vector<AlignedClock> align_clocks(const std::vector<ClockFacts>& ranks);

}  // namespace dabke::timeline

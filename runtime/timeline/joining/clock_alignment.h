// Converts the times of all ranks to one clock: that of the host of the lowest rank that has left records.
//
//  1. Ranks of one kernel and time namespace share CLOCK_MONOTONIC, so their times need no conversion.
//  2. A rank whose parent is on another host compares its clock with the parent's once a second, and records
//     the possible error (runtime/control/clock_offset.h). These comparisons lead from host to host to the
//     one clock.
//  3. For a host without such a chain of comparisons, CLOCK_REALTIME is used. Its error is not known.
//
// A rank has an entry for each epoch of an elastic job that it was in. Hosts have the same clock in every
// epoch, so the comparisons of one epoch also serve the others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/timeline/joining/record_file.h"

namespace dabke::timeline {

/// The content of a rank's `clock` records.
struct ClockSample {
  std::int64_t at_ns = 0;
  std::int64_t ahead_ns = 0;  // the parent's clock minus this rank's
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

  /// Converts a time of this rank to the one clock.
  std::int64_t at(std::int64_t time_ns) const;

  Source source() const { return source_; }
  /// The one clock minus this one, in the middle of the compared times.
  std::int64_t offset_ns() const;
  /// The largest possible error; nothing if it is not known.
  std::optional<std::int64_t> error_ns() const;

 private:
  using Samples = std::vector<ClockSample>;
  friend std::vector<AlignedClock> align_clocks(const std::vector<ClockFacts>& ranks);

  Source source_ = Source::same;
  // From this clock towards the one clock; no element is empty.
  std::vector<std::shared_ptr<const Samples>> hops_;
  std::int64_t wall_offset_ns_ = 0;
};

/// Returns "same", "compared" or "wall".
std::string_view name_of(AlignedClock::Source source);

/// Returns one clock for each of `ranks`, in their order. The clock of the first is the one clock. A parent
/// is a rank of the same epoch.
std::vector<AlignedClock> align_clocks(const std::vector<ClockFacts>& ranks);

}  // namespace dabke::timeline

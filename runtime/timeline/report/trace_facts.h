// The facts that an analysis has gathered on a job: by rank, by tensor and by batch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/timeline/joining/intervals.h"
#include "runtime/timeline/joining/record_joiner.h"

namespace dabke::timeline {

/// Converts nanoseconds to the microseconds of a report.
inline double us(std::int64_t ns) { return static_cast<double>(ns) / 1e3; }

struct TraceFacts {
  enum Phase : std::uint8_t { kNegotiate, kQueue, kPack, kCollective, kUnpack, kPhases };
  using PhaseTimes = std::array<std::int64_t, kPhases>;

  /// The index of a rank in an epoch, and the thread's number there.
  using ThreadKey = std::pair<std::size_t, std::uint32_t>;

  struct StepTime {
    std::uint64_t step = 0;
    Interval when;
  };
  /// A batch on a rank.
  struct RankBatch {
    Interval when;            // it is in progress
    std::int64_t run_ns = 0;  // the part that moves the data
    std::uint64_t bytes = 0;
    double bus_bytes = 0;
    std::vector<std::size_t> tensors;
  };
  struct RankFacts {
    std::array<Intervals, kPhases> phases;
    Intervals busy;     // batches are in progress
    Intervals missing;  // this rank is ready for a batch, and another rank is not
    Intervals computing;
    // Only if they are kept for a comparison with profiles:
    Intervals outstanding;  // tensors have been submitted and have not ended
    std::vector<RankBatch> batches;
    std::map<ThreadKey, Intervals> waits;
    std::set<ThreadKey> working;                          // threads that submit tensors or mark steps
    std::map<std::string, Intervals, std::less<>> spans;  // by name
    std::vector<StepTime> steps;
    std::pair<std::int64_t, std::size_t> last_mark{kNotKnown, 0};  // of a step, and the index of its rank
    std::vector<std::int64_t> unfinished_ns;  // when each tensor that has not ended was submitted
    bool was_closed = false;
    Intervals exposed;
  };
  struct Late {
    Interval when;
    std::size_t rank = 0;
    std::uint64_t order = 0;
    std::size_t tensor = 0;
  };
  struct Failure {
    std::size_t rank = 0;
    std::string tensor, text;
    std::int64_t at_ns = 0;
  };
  struct TensorFacts {
    std::string name;
    std::uint64_t count = 0;  // on all ranks
    std::uint64_t bytes = 0;
    PhaseTimes sums{};
    std::map<std::size_t, std::uint64_t> last;  // how often a rank was last, by rank
    std::vector<std::int64_t> submits_ns;       // on the first rank that has it
    std::size_t first_rank = 0;
  };
  struct Speed {
    std::vector<float> algorithm, bus;
  };

  std::vector<int> ranks;
  std::vector<RankFacts> by_rank;
  std::vector<Late> late;
  std::vector<std::uint64_t> last;  // how often a rank was last, by rank
  std::uint64_t compared = 0;       // batches for which the last rank is known
  std::vector<TensorFacts> tensors;
  // By power of two of the size, backend and algorithm.
  std::map<std::tuple<int, std::string, std::string>, Speed> speeds;
  std::map<int, std::uint64_t> fused;  // number of batches by power of two of their tensors
  std::uint64_t batches = 0, fused_tensors = 0;
  std::vector<Failure> failures;
  std::int64_t begin_ns = 0, end_ns = 0;
  bool any = false;  // true once begin_ns and end_ns are set
  std::int64_t clock_error_ns = 0;
  std::vector<std::string> notes;
  std::vector<EpochChange> changes;  // of the ranks of an elastic job, sorted
  bool keeps_batches = false;
  bool takes_profiled_steps = false;
  std::optional<Interval> profiled;  // the time that the profiles of all ranks cover

  /// True if the ranks change between these times.
  bool have_changed(const Interval& when) const;
  /// The end of the last change; the lowest time without a change.
  std::int64_t last_change_ns() const;
  /// Removes what belongs to changes: errors and waits that a change has caused.
  void leave_out_changes();
  /// True if the profiles cover nearly all of this time, or if there are none.
  bool is_covered(const Interval& when) const;
  /// Leaves out steps that the profiles do not cover, and exposed times outside of the profiles.
  void limit_to_profiles();
  /// Unites intervals that overlap, and computes the exposed ones. Call it once, when all facts are there.
  void unite();
  bool has_waits() const;
  /// False for a rank without a profile and without waits, while others have a profile.
  bool is_exposed_time_known(const RankFacts& facts) const {
    return !profiled || !facts.computing.empty() || !facts.exposed.empty();
  }
  /// Infers steps that are not marked from the tensors, since most tensors come once in each step. Returns in
  /// words where a step begins; empty if no steps are found.
  std::string infer_steps();
  const std::vector<StepTime>& shown_steps() const;
  /// The number of steps that the figures count.
  std::size_t counted_steps() const;
  /// The time that the figures of steps cover: from the second step's begin to the last step's end. The first
  /// step sets up what the others use. Before the steps the ranks start up, after them they shut down.
  Interval of_steps() const;
};

}  // namespace dabke::timeline

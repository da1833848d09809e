// The facts that an analysis has gathered of a job, rank by rank, tensor by tensor and batch by batch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/timeline/joining/intervals.h"
#include "runtime/timeline/joining/record_joiner.h"

namespace dabke::timeline {

struct TraceFacts {
  enum Phase : std::uint8_t { kNegotiate, kQueue, kPack, kCollective, kUnpack, kPhases };
  using PhaseTimes = std::array<std::int64_t, kPhases>;

  struct StepTime {
    std::uint64_t step = 0;
    Interval when;
  };
  struct RankFacts {
    std::array<Intervals, kPhases> phases;
    Intervals busy;     // with batches
    Intervals missing;  // it is ready for a batch, and another is not
    Intervals computing;
    std::map<std::uint32_t, Intervals> waits;             // by thread
    std::set<std::uint32_t> working;                      // threads that submit or mark steps
    std::map<std::string, Intervals, std::less<>> spans;  // by name
    std::vector<StepTime> steps;
    std::int64_t marked_ns = kNotKnown;
    std::uint64_t unfinished = 0;  // tensors
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
    std::map<std::size_t, std::uint64_t> last;  // how often, by rank
    std::vector<std::int64_t> submits_ns;       // of the first rank that has it
    std::size_t first_rank = 0;
  };
  struct Speed {
    std::vector<float> algorithm, bus;
  };

  std::vector<int> ranks;
  std::vector<RankFacts> by_rank;
  std::vector<Late> late;
  std::vector<std::uint64_t> last;  // how often a rank was
  std::uint64_t compared = 0;       // batches of which it is known who was last
  std::vector<TensorFacts> tensors;
  std::map<std::tuple<int, std::string, std::string>, Speed>
      speeds;                          // by power of two, backend and algorithm
  std::map<int, std::uint64_t> fused;  // batches, by power of two
  std::uint64_t batches = 0, fused_tensors = 0;
  std::vector<Failure> failures;
  std::int64_t begin_ns = 0, end_ns = 0;
  bool any = false;  // anything has been seen, so that begin_ns and end_ns mean something
  std::int64_t clock_error_ns = 0;
  std::vector<std::string> notes;

  /// Unites what overlaps, and computes what is exposed. Once, when all is there.
  void unite();
  bool has_waits() const;
  /// Steps that nobody marks show in the tensors: most come once in each. Where a step begins, in words;
  /// empty: not known.
  std::string infer_steps();
  const std::vector<StepTime>& shown_steps() const;
  /// The number of steps that figures are of.
  std::size_t counted_steps() const;
  /// The time from which figures of a step are taken: from the second step's beginning to the last one's end.
  /// The first sets up what the others have. Before the steps ranks start up, after them they shut down.
  Interval of_steps() const;
};

}  // namespace dabke::timeline

// Makes a report of what happened to a job.
//
// Lateness. Of a batch's ranks one is ready last; from when the one before it was ready until then, all others can only wait
// for that one. It costs another rank what that rank's application waits meanwhile: a rank that is late behind the others'
// computation costs nothing. Where a trace does not say what applications wait, the longest lateness of those that overlap
// counts, since the same delay makes all tensors late that follow it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/timeline/joining/intervals.h"
#include "runtime/timeline/joining/record_joiner.h"
#include "runtime/timeline/report/report.h"

namespace dabke {

class Analysis {
 public:
  /// The name of a tensor or text of a rank, by its index.
  using NameOf = std::function<std::string_view(std::size_t rank, NameKind kind, std::uint32_t number)>;

  explicit Analysis(NameOf name_of) : name_of_(std::move(name_of)) {}

  /// The index by which the rest names it. Each once.
  std::size_t add_rank(int rank);
  /// By index.
  const std::vector<int>& ranks() const { return ranks_; }

  void batch(const JoinedBatch& batch);
  void lonely_tensor(std::size_t rank, const JoinedTensor& tensor);
  void wait(std::size_t rank, std::uint32_t thread, const Interval& when);
  void step(std::size_t rank, std::uint32_t thread, std::int64_t at_ns, std::uint64_t step);
  /// A span of the program's own.
  void span(std::size_t rank, std::uint32_t name, const Interval& when);
  void failure(std::size_t rank, std::string_view tensor, std::string_view text, std::int64_t at_ns);

  // ---- what other tools record: no batches, but communication beside computation
  void communication(std::size_t rank, std::string_view name, std::uint64_t bytes, const Interval& when);
  void computation(std::size_t rank, const Interval& when);
  void whole_step(std::size_t rank, std::uint64_t step, const Interval& when);

  /// The timeline of the rank was stopped, or the job shut down: what had not ended by then may well have ended later.
  void was_closed(std::size_t rank) { facts_[rank].was_closed = true; }
  /// By how much the clocks of ranks may be wrong, at the worst.
  void clocks_may_be_wrong(std::int64_t error_ns) { clock_error_ns_ = error_ns; }
  void note(std::string text) { notes_.push_back(std::move(text)); }

  /// Once, when all has been told.
  TraceReport report(std::string source);

 private:
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

  void saw(const Interval& when);
  void note_failure(std::size_t rank, const JoinedTensor& tensor);
  std::size_t tensor_of(std::size_t rank, std::uint32_t name);
  void take_readiness(const JoinedBatch& batch);
  PhaseTimes take_phases(const RankPart& part);
  void take_speed(const JoinedBatch& batch, const RankPart& part);
  void unite();
  bool knows_waits() const;
  std::string infer_steps();
  const std::vector<StepTime>& shown_steps() const;
  /// How many figures are of.
  std::size_t counted_steps() const;
  /// What figures of a step are taken from: from the second step's beginning to the last one's end. The first sets up what the
  /// others have. Before the steps ranks start up, after them they shut down.
  Interval of_steps() const;
  /// What `rank` costs `other`.
  Intervals cost_to(std::size_t other, const Intervals& late) const;
  void add_steps(TraceReport& report) const;
  void add_cost(TraceReport& report) const;
  void add_phases(TraceReport& report) const;
  void add_tensors(TraceReport& report) const;
  void add_sizes(TraceReport& report) const;
  void add_fusion(TraceReport& report) const;
  void add_failures(TraceReport& report) const;
  void add_spans(TraceReport& report) const;
  std::vector<TraceReport::Evidence> evidence_of(std::size_t rank) const;

  const NameOf name_of_;
  std::vector<int> ranks_;
  std::vector<RankFacts> facts_;
  std::vector<Late> late_;
  std::vector<std::uint64_t> last_;  // how often a rank was
  std::uint64_t compared_ = 0;       // batches of which it is known who was last
  std::vector<TensorFacts> tensors_;
  std::unordered_map<std::string, std::size_t> tensor_by_name_;
  std::unordered_map<std::uint64_t, std::size_t> tensor_by_number_;  // rank and number
  std::map<std::tuple<int, std::string, std::string>, Speed>
      speeds_;                          // by power of two, backend and algorithm
  std::map<int, std::uint64_t> fused_;  // batches, by power of two
  std::uint64_t batches_ = 0, fused_tensors_ = 0;
  std::vector<Failure> failures_;
  std::int64_t begin_ns_ = 0, end_ns_ = 0;
  bool any_ = false;
  std::int64_t clock_error_ns_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace dabke

// Makes a report of a job from the events of its trace.
//
// How lateness is measured: one rank of a batch is ready last. From the time when the second last was ready
// until then, all other ranks can only wait for this one. The cost for another rank is the time in which its
// application waits meanwhile. So a rank that is late while the others compute costs nothing. Some traces do
// not show what applications wait. Then the longest lateness of those that overlap counts, since one delay
// makes all later tensors late.
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
#include "runtime/timeline/report/trace_facts.h"

namespace dabke::timeline {

class Analysis {
 public:
  /// Returns the name of a tensor or text of a rank. The rank is given by its index.
  using NameOf = std::function<std::string_view(std::size_t rank, NameKind kind, std::uint32_t number)>;

  explicit Analysis(NameOf name_of) : name_of_(std::move(name_of)) {}

  /// Returns the index that stands for this rank in all other calls. Call it once for each rank.
  std::size_t add_rank(int rank);
  /// Returns another index of a rank, for its events in another epoch of an elastic job. Names and threads
  /// have other numbers there.
  std::size_t add_epoch(std::size_t rank);
  /// The ranks, each once.
  const std::vector<int>& ranks() const { return facts_.ranks; }
  /// The next mark of the rank ends no step.
  void forget_mark(std::size_t rank) { facts_of(rank).last_mark = {kNotKnown, rank}; }
  /// The ranks change at this time.
  void change(EpochChange change) { facts_.changes.push_back(std::move(change)); }

  void batch(const JoinedBatch& batch);
  void lonely_tensor(std::size_t rank, const JoinedTensor& tensor);
  void wait(std::size_t rank, std::uint32_t thread, const Interval& when);
  void step(std::size_t rank, std::uint32_t thread, std::int64_t at_ns, std::uint64_t step);
  /// Takes a span of the application.
  void span(std::size_t rank, std::uint32_t name, const Interval& when);
  void failure(std::size_t rank, std::string_view tensor, std::string_view text, std::int64_t at_ns);

  // ---- for traces of other tools, which have no batches, but show communication beside computation
  void communication(std::size_t rank, std::string_view name, std::uint64_t bytes, const Interval& when);
  void computation(std::size_t rank, const Interval& when);
  void whole_step(std::size_t rank, std::uint64_t step, const Interval& when);

  // ---- for a trace with batches beside profiles of the same job
  /// Keeps what the comparison with computation needs. Call it before the first batch.
  void keep_batches() { facts_.keeps_batches = true; }
  bool has_steps() const { return !facts_.shown_steps().empty(); }
  /// The time from the first event to the last.
  Interval covered() const { return {facts_.begin_ns, facts_.end_ns}; }
  /// The profiles of all ranks cover this time. The figures of steps are limited to it. `takes_steps`: the
  /// steps are those of the profiles.
  void profiled(const Interval& when, bool takes_steps) {
    facts_.profiled = when;
    facts_.takes_profiled_steps = takes_steps;
  }

  /// The timeline of the rank was stopped, or the job has shut down. Tensors that had not ended by
  /// then probably ended later.
  void was_closed(std::size_t rank) { facts_of(rank).was_closed = true; }
  /// Takes the largest possible error between the clocks of ranks.
  void clocks_may_be_wrong(std::int64_t error_ns) { facts_.clock_error_ns = error_ns; }
  void note(std::string text) { facts_.notes.push_back(std::move(text)); }

  /// Returns the report. Call it once, after all events.
  TraceReport report(std::string source);

 private:
  using RankFacts = TraceFacts::RankFacts;
  using TensorFacts = TraceFacts::TensorFacts;
  using PhaseTimes = TraceFacts::PhaseTimes;

  RankFacts& facts_of(std::size_t rank) { return facts_.by_rank[slots_[rank]]; }
  void saw(const Interval& when);
  void note_failure(std::size_t rank, const JoinedTensor& tensor);
  std::size_t tensor_of(std::size_t rank, std::uint32_t name);
  void take_readiness(const JoinedBatch& batch);
  PhaseTimes take_phases(const RankPart& part);
  void keep_batch(const JoinedBatch& batch, const RankPart& part);
  void take_speed(const JoinedBatch& batch, const RankPart& part);

  const NameOf name_of_;
  TraceFacts facts_;
  std::vector<std::size_t> slots_;  // the index in facts_.ranks of each index of a rank
  std::unordered_map<std::string, std::size_t> tensor_by_name_;
  std::unordered_map<std::uint64_t, std::size_t> tensor_by_number_;  // by rank and number
};

}  // namespace dabke::timeline

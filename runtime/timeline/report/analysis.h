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
#include "runtime/timeline/report/trace_facts.h"

namespace dabke::timeline {

class Analysis {
 public:
  /// The name of a tensor or text of a rank, by its index.
  using NameOf = std::function<std::string_view(std::size_t rank, NameKind kind, std::uint32_t number)>;

  explicit Analysis(NameOf name_of) : name_of_(std::move(name_of)) {}

  /// The index by which the rest names it. Each once.
  std::size_t add_rank(int rank);
  /// By index.
  const std::vector<int>& ranks() const { return facts_.ranks; }

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
  void was_closed(std::size_t rank) { facts_.by_rank[rank].was_closed = true; }
  /// By how much the clocks of ranks may be wrong, at the worst.
  void clocks_may_be_wrong(std::int64_t error_ns) { facts_.clock_error_ns = error_ns; }
  void note(std::string text) { facts_.notes.push_back(std::move(text)); }

  /// Once, when all has been told.
  TraceReport report(std::string source);

 private:
  using RankFacts = TraceFacts::RankFacts;
  using TensorFacts = TraceFacts::TensorFacts;
  using PhaseTimes = TraceFacts::PhaseTimes;

  void saw(const Interval& when);
  void note_failure(std::size_t rank, const JoinedTensor& tensor);
  std::size_t tensor_of(std::size_t rank, std::uint32_t name);
  void take_readiness(const JoinedBatch& batch);
  PhaseTimes take_phases(const RankPart& part);
  void take_speed(const JoinedBatch& batch, const RankPart& part);

  const NameOf name_of_;
  TraceFacts facts_;
  std::unordered_map<std::string, std::size_t> tensor_by_name_;
  std::unordered_map<std::uint64_t, std::size_t> tensor_by_number_;  // rank and number
};

}  // namespace dabke::timeline

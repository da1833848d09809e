#include "runtime/timeline/report/report_maker.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "runtime/timeline/report/findings.h"
#include "runtime/timeline/report/overlap.h"

namespace dabke::timeline {
namespace {

constexpr std::size_t kWorstTensors = 10;
constexpr std::size_t kEvidence = 3;
constexpr std::size_t kFailures = 8;
constexpr std::size_t kSpans = 5;

template <class Number>
Number median(std::vector<Number> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Returns the longest interval of each group that overlaps.
Intervals longest_of_each_cluster(Intervals any) {
  std::erase_if(any, [](const Interval& one) { return one.end_ns <= one.begin_ns; });
  std::ranges::sort(any, {}, &Interval::begin_ns);
  Intervals longest;
  std::int64_t end_ns = 0;
  for (const Interval& one : any) {
    if (longest.empty() || one.begin_ns >= end_ns) {
      longest.push_back(one);
    } else if (one.end_ns - one.begin_ns > longest.back().end_ns - longest.back().begin_ns) {
      longest.back() = one;
    }
    end_ns = std::max(end_ns, one.end_ns);
  }
  return longest;
}

class ReportMaker {
 public:
  explicit ReportMaker(const TraceFacts& facts) : facts_(facts) {}
  void add_steps(TraceReport& report) const;
  void add_cost(TraceReport& report) const;
  void add_phases(TraceReport& report) const;
  void add_tensors(TraceReport& report) const;
  void add_sizes(TraceReport& report) const;
  void add_fusion(TraceReport& report) const;
  void add_failures(TraceReport& report) const;
  void add_spans(TraceReport& report) const;
  void add_changes(TraceReport& report) const;

 private:
  using RankFacts = TraceFacts::RankFacts;
  using TensorFacts = TraceFacts::TensorFacts;
  using StepTime = TraceFacts::StepTime;
  using Failure = TraceFacts::Failure;
  using Late = TraceFacts::Late;

  /// The intervals that the lateness of a rank costs `other`.
  Intervals cost_to(std::size_t other, const Intervals& late) const;
  std::vector<TraceReport::Evidence> evidence_of(std::size_t rank) const;

  const TraceFacts& facts_;
};

void ReportMaker::add_steps(TraceReport& report) const {
  const bool has_waits = facts_.has_waits();
  for (const StepTime& step : facts_.shown_steps()) {
    std::int64_t busy = 0, exposed = 0;
    std::int64_t ranks = 0, known = 0;
    for (const RankFacts& facts : facts_.by_rank) {
      // The trace of one rank holds only the times at which the other ranks were ready.
      if (facts.busy.empty()) continue;
      ++ranks;
      add_ns(busy, length_within_ns(facts.busy, step.when));
      if (!facts_.is_exposed_time_known(facts)) continue;
      ++known;
      add_ns(exposed, length_within_ns(facts.exposed, step.when));
    }
    ranks = std::max<std::int64_t>(1, ranks);
    TraceReport::Step shown{.step = step.step,
                            .start_us = us(step.when.begin_ns),
                            .end_us = us(step.when.end_ns),
                            .communication_us = us(busy / ranks)};
    if (has_waits) shown.exposed_us = us(exposed / std::max<std::int64_t>(1, known));
    report.steps.push_back(shown);
  }
  if (!has_waits) return;
  std::int64_t exposed = 0, ranks = 0;
  for (const RankFacts& facts : facts_.by_rank) {
    if (facts.busy.empty() || !facts_.is_exposed_time_known(facts)) continue;
    ++ranks;
    add_ns(exposed, length_within_ns(facts.exposed, facts_.of_steps()));
  }
  report.exposed_us = us(exposed / std::max<std::int64_t>(1, ranks));
  std::vector<Intervals> hidden;
  for (const RankFacts& facts : facts_.by_rank) {
    if (!facts.busy.empty() && facts_.is_exposed_time_known(facts))
      hidden.push_back(without(facts.busy, facts.exposed));
  }
  for (std::size_t i = 0; i < report.steps.size(); ++i) {
    std::int64_t sum = 0;
    for (const Intervals& one : hidden) add_ns(sum, length_within_ns(one, facts_.shown_steps()[i].when));
    report.steps[i].overlapped_us = us(sum / std::max<std::int64_t>(1, std::ssize(hidden)));
  }
}

Intervals ReportMaker::cost_to(std::size_t other, const Intervals& late) const {
  const RankFacts& facts = facts_.by_rank[other];
  const bool is_known = facts_.has_waits() && facts_.is_exposed_time_known(facts);
  return is_known ? common(united(late), facts.exposed) : longest_of_each_cluster(late);
}

void ReportMaker::add_cost(TraceReport& report) const {
  const auto& steps = facts_.shown_steps();
  const double per_step = steps.empty() ? 1 : static_cast<double>(facts_.counted_steps());
  const auto left_out = static_cast<std::ptrdiff_t>(steps.size() - facts_.counted_steps());
  report.lateness.ranks = facts_.ranks;
  for (const StepTime& step : steps) report.lateness.steps.push_back(step.step);
  const Interval window = facts_.of_steps();
  std::vector<Intervals> late(facts_.by_rank.size());
  for (const Late& one : facts_.late) late[one.rank].push_back(one.when);
  std::int64_t waited = 0;
  for (std::size_t rank = 0; rank < facts_.by_rank.size(); ++rank) {
    add_ns(waited, length_within_ns(cost_to(rank, facts_.by_rank[rank].missing), window));
    const auto others = static_cast<double>(std::max<std::size_t>(1, facts_.by_rank.size() - 1));
    std::vector<double> by_step(steps.size());
    double caused = 0;
    for (std::size_t other = 0; other < facts_.by_rank.size(); ++other) {
      if (other == rank) continue;
      const Intervals cost = cost_to(other, late[rank]);
      caused += us(length_within_ns(cost, window)) / others;
      for (std::size_t i = 0; i < steps.size(); ++i)
        by_step[i] += us(length_within_ns(cost, steps[i].when)) / others;
    }
    const double usual =
        steps.empty() ? caused : median(std::vector(by_step.begin() + left_out, by_step.end()));
    report.lateness.caused_us.push_back(std::move(by_step));
    const auto share = static_cast<double>(facts_.last[rank]) /
                       static_cast<double>(std::max<std::uint64_t>(1, facts_.compared));
    report.cost.push_back(
        {facts_.ranks[rank], share, facts_.last[rank], caused, caused / per_step, usual, evidence_of(rank)});
  }
  std::ranges::stable_sort(report.cost, std::greater<>(), &TraceReport::Cost::caused_us);
  report.late_us = us(waited) / std::max(1.0, static_cast<double>(facts_.by_rank.size())) / per_step;
}

std::vector<TraceReport::Evidence> ReportMaker::evidence_of(std::size_t rank) const {
  const Interval window = facts_.of_steps();
  std::vector<const Late*> worst;
  for (const Late& one : facts_.late) {
    if (one.rank == rank && one.when.end_ns > window.begin_ns && one.when.begin_ns < window.end_ns)
      worst.push_back(&one);
  }
  const auto length = [](const Late* one) { return one->when.end_ns - one->when.begin_ns; };
  const std::size_t kept = std::min(kEvidence, worst.size());
  std::ranges::partial_sort(worst, worst.begin() + static_cast<std::ptrdiff_t>(kept), std::greater<>(),
                            length);
  worst.resize(kept);
  std::vector<TraceReport::Evidence> evidence;
  for (const Late* const one : worst) {
    evidence.push_back({facts_.ranks[rank], us(one->when.begin_ns), us(one->when.end_ns),
                        facts_.tensors[one->tensor].name, one->order});
  }
  return evidence;
}

void ReportMaker::add_phases(TraceReport& report) const {
  const Interval window = facts_.of_steps();
  TraceFacts::PhaseTimes sums{};
  double ranks = 0;
  for (const RankFacts& facts : facts_.by_rank) {
    if (facts.busy.empty()) continue;
    ++ranks;
    for (std::size_t phase = 0; phase < TraceFacts::kPhases; ++phase)
      add_ns(sums[phase], length_within_ns(facts.phases[phase], window));
  }
  const double by = std::max(1.0, ranks) * std::max<double>(1, static_cast<double>(facts_.counted_steps()));
  report.phases = {us(sums[TraceFacts::kNegotiate]) / by, us(sums[TraceFacts::kQueue]) / by,
                   us(sums[TraceFacts::kPack]) / by, us(sums[TraceFacts::kCollective]) / by,
                   us(sums[TraceFacts::kUnpack]) / by};
}

void ReportMaker::add_tensors(TraceReport& report) const {
  std::vector<std::pair<std::int64_t, const TensorFacts*>> worst;
  for (const TensorFacts& tensor : facts_.tensors) {
    std::int64_t sum = 0;
    for (const std::int64_t time : tensor.sums) add_ns(sum, time);
    if (tensor.count > 0) worst.emplace_back(sum, &tensor);
  }
  std::ranges::stable_sort(worst, std::greater<>(), [](const auto& one) { return one.first; });
  worst.resize(std::min(worst.size(), kWorstTensors));
  for (const auto& [sum, tensor] : worst) {
    const auto count = static_cast<double>(tensor->count);
    TraceReport::Tensor shown{
        {us(tensor->sums[TraceFacts::kNegotiate]) / count, us(tensor->sums[TraceFacts::kQueue]) / count,
         us(tensor->sums[TraceFacts::kPack]) / count, us(tensor->sums[TraceFacts::kCollective]) / count,
         us(tensor->sums[TraceFacts::kUnpack]) / count},
        tensor->name,
        tensor->count,
        tensor->bytes,
        {}};
    const auto last = std::ranges::max_element(tensor->last, {}, [](const auto& one) { return one.second; });
    if (last != tensor->last.end()) shown.last_rank = facts_.ranks[last->first];
    report.tensors.push_back(std::move(shown));
  }
}

void ReportMaker::add_sizes(TraceReport& report) const {
  for (const auto& [of, speed] : facts_.speeds) {
    const auto& [power, backend, algorithm] = of;
    report.sizes.push_back({std::uint64_t{1} << power, std::uint64_t{2} << power, speed.algorithm.size(),
                            median(speed.algorithm), median(speed.bus), backend, algorithm});
  }
}

void ReportMaker::add_failures(TraceReport& report) const {
  report.failed = facts_.failures.size();
  std::vector<const Failure*> first;
  for (const Failure& one : facts_.failures) first.push_back(&one);
  std::ranges::stable_sort(first, {}, &Failure::at_ns);
  first.resize(std::min(first.size(), kFailures));
  for (const Failure* const one : first)
    report.failures.push_back({facts_.ranks[one->rank], one->tensor, one->text, us(one->at_ns)});
}

/// For each name, adds the rank whose spans take longest. The time in which it waits for
/// tensors does not count.
void ReportMaker::add_spans(TraceReport& report) const {
  const Interval window = facts_.of_steps();
  const double steps = std::max<double>(1, static_cast<double>(facts_.counted_steps()));
  std::map<std::string_view, std::vector<TraceReport::Span>> by_name;
  for (std::size_t rank = 0; rank < facts_.by_rank.size(); ++rank) {
    for (const auto& [name, spans] : facts_.by_rank[rank].spans) {
      Intervals own = common(united(spans), {window});
      const auto count = static_cast<std::uint64_t>(std::ranges::count_if(spans, [&](const Interval& one) {
        return one.end_ns > window.begin_ns && one.begin_ns < window.end_ns;
      }));
      if (count == 0) continue;
      own = without(own, facts_.by_rank[rank].exposed);
      by_name[name].push_back({std::string(name), facts_.ranks[rank], us(length_ns(own)) / steps, 0, count});
    }
  }
  for (auto& [name, of_ranks] : by_name) {
    if (of_ranks.size() < 2) continue;
    const auto longest = std::ranges::max_element(of_ranks, {}, &TraceReport::Span::us);
    std::vector<double> others;
    for (const TraceReport::Span& one : of_ranks) {
      if (one.rank != longest->rank) others.push_back(one.us);
    }
    longest->others_us = median(others);
    report.spans.push_back(*longest);
  }
  std::ranges::stable_sort(report.spans, std::greater<>(),
                           [](const TraceReport::Span& one) { return one.us - one.others_us; });
  report.spans.resize(std::min(report.spans.size(), kSpans));
}

void ReportMaker::add_changes(TraceReport& report) const {
  for (const EpochChange& one : facts_.changes) {
    report.changes.push_back({one.epoch, us(one.when.begin_ns), us(one.when.end_ns), one.text});
    report.changes_us += us(one.when.end_ns - one.when.begin_ns);
  }
}

void ReportMaker::add_fusion(TraceReport& report) const {
  report.fusion = {.batches = facts_.batches, .tensors = facts_.fused_tensors};
  if (facts_.batches > 0)
    report.fusion.mean_tensors =
        static_cast<double>(facts_.fused_tensors) / static_cast<double>(facts_.batches);
  for (const auto& [power, count] : facts_.fused)
    report.fusion.histogram.push_back({std::uint64_t{1} << power, (std::uint64_t{2} << power) - 1, count});
}

}  // namespace

TraceReport report_of(TraceFacts& facts, std::string source) {
  TraceReport report;
  report.source = std::move(source);
  report.ranks = facts.ranks;
  report.duration_us = us(facts.end_ns - facts.begin_ns);
  report.steps_are = facts.shown_steps().empty()  ? facts.infer_steps()
                     : facts.takes_profiled_steps ? "of the profiles"
                                                  : "from mark to mark";
  const ReportMaker maker(facts);
  maker.add_steps(report);
  maker.add_cost(report);
  maker.add_phases(report);
  maker.add_tensors(report);
  maker.add_sizes(report);
  maker.add_fusion(report);
  maker.add_failures(report);
  maker.add_spans(report);
  maker.add_changes(report);
  add_overlap(facts, report);
  report.compared = facts.compared;
  for (const TraceFacts::RankFacts& of : facts.by_rank)
    report.unfinished += of.was_closed ? 0 : of.unfinished_ns.size();
  report.notes = facts.notes;
  report.clock_error_us = us(facts.clock_error_ns);
  add_findings(report);
  return report;
}

}  // namespace dabke::timeline

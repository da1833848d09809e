#include "runtime/timeline/report/overlap.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace dabke::timeline {
namespace {

constexpr std::size_t kMostTensors = 10;

/// The times of a rank that each of its steps is compared with.
struct RankTimes {
  const TraceFacts::RankFacts& facts;
  Intervals hidden, late;
};

bool begins_in(const TraceFacts::RankBatch& batch, const Interval& when) {
  return batch.when.begin_ns >= when.begin_ns && batch.when.begin_ns < when.end_ns;
}

TraceReport::Overlap overlap_of(const RankTimes& times, const Interval& when) {
  TraceReport::Overlap overlap{.communication_us = us(length_within_ns(times.facts.busy, when)),
                               .hidden_us = us(length_within_ns(times.hidden, when)),
                               .exposed_us = us(length_within_ns(times.facts.exposed, when)),
                               .late_us = us(length_within_ns(times.late, when))};
  double bus_bytes = 0;
  std::int64_t run_ns = 0;
  const auto& batches = times.facts.batches;
  const auto begin_of = [](const TraceFacts::RankBatch& batch) { return batch.when.begin_ns; };
  for (auto batch = std::ranges::lower_bound(batches, when.begin_ns, {}, begin_of);
       batch != batches.end() && begins_in(*batch, when); ++batch) {
    overlap.bytes += batch->bytes;
    bus_bytes += batch->bus_bytes;
    add_ns(run_ns, batch->run_ns);
  }
  if (run_ns > 0) overlap.bus_bandwidth_mb_s = bus_bytes / us(run_ns);
  return overlap;
}

std::vector<TraceReport::ExposedTensor> exposed_tensors(const TraceFacts& facts) {
  std::vector<TraceReport::ExposedTensor> all(facts.tensors.size());
  for (const TraceFacts::RankFacts& rank : facts.by_rank) {
    if (rank.computing.empty()) continue;
    for (const TraceFacts::RankBatch& batch : rank.batches) {
      if (!begins_in(batch, facts.of_steps())) continue;
      const double exposed_us = us(length_within_ns(rank.exposed, batch.when));
      for (const std::size_t tensor : batch.tensors) {
        ++all[tensor].count;
        all[tensor].communication_us += us(batch.when.end_ns - batch.when.begin_ns);
        all[tensor].exposed_us += exposed_us;
      }
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].name = facts.tensors[i].name;
    all[i].bytes = facts.tensors[i].bytes;
  }
  std::erase_if(all, [](const TraceReport::ExposedTensor& one) { return one.exposed_us <= 0; });
  std::ranges::stable_sort(all, std::greater<>(), &TraceReport::ExposedTensor::exposed_us);
  all.resize(std::min(all.size(), kMostTensors));
  for (TraceReport::ExposedTensor& one : all) {
    one.communication_us /= static_cast<double>(one.count);
    one.exposed_us /= static_cast<double>(one.count);
  }
  return all;
}

}  // namespace

void add_overlap(const TraceFacts& facts, TraceReport& report) {
  if (!facts.profiled) return;
  TraceReport::Profiled profiled{.start_us = us(facts.profiled->begin_ns),
                                 .end_us = us(facts.profiled->end_ns),
                                 .tensors = exposed_tensors(facts)};
  std::vector<std::pair<int, RankTimes>> ranks;
  for (std::size_t i = 0; i < facts.by_rank.size(); ++i) {
    const TraceFacts::RankFacts& rank = facts.by_rank[i];
    if (rank.computing.empty()) continue;
    profiled.ranks.push_back(facts.ranks[i]);
    ranks.emplace_back(facts.ranks[i], RankTimes{rank, without(rank.busy, rank.exposed),
                                                 common(rank.exposed, united(rank.missing))});
  }
  const auto add = [&](std::optional<std::uint64_t> step, const Interval& when) {
    for (const auto& [number, times] : ranks) {
      profiled.overlap.push_back(overlap_of(times, when));
      profiled.overlap.back().step = step;
      profiled.overlap.back().rank = number;
    }
  };
  for (const TraceFacts::StepTime& step : facts.shown_steps()) add(step.step, step.when);
  if (facts.shown_steps().empty()) add({}, *facts.profiled);
  report.profiled = std::move(profiled);
}

}  // namespace dabke::timeline

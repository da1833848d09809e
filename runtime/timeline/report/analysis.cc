#include "runtime/timeline/report/analysis.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "runtime/timeline/joining/bus_bandwidth.h"
#include "runtime/timeline/report/report_maker.h"

namespace dabke::timeline {
namespace {

int power_of_two(std::uint64_t number) { return number == 0 ? 0 : std::bit_width(number) - 1; }

bool has_ended(const RankPart& part) {
  return std::ranges::all_of(part.tensors,
                             [](const JoinedTensor& tensor) { return tensor.end_ns != kNotKnown; });
}

}  // namespace

std::size_t Analysis::add_rank(int rank) {
  facts_.ranks.push_back(rank);
  facts_.by_rank.emplace_back();
  facts_.last.push_back(0);
  slots_.push_back(facts_.ranks.size() - 1);
  return slots_.size() - 1;
}

std::size_t Analysis::add_epoch(std::size_t rank) {
  slots_.push_back(slots_[rank]);
  return slots_.size() - 1;
}

void Analysis::saw(const Interval& when) {
  facts_.begin_ns = facts_.any ? std::min(facts_.begin_ns, when.begin_ns) : when.begin_ns;
  facts_.end_ns = facts_.any ? std::max(facts_.end_ns, when.end_ns) : when.end_ns;
  facts_.any = true;
}

std::size_t Analysis::tensor_of(std::size_t rank, std::uint32_t name) {
  const auto [by_number, is_new] =
      tensor_by_number_.try_emplace(std::uint64_t{rank} << 32 | name, facts_.tensors.size());
  if (!is_new) return by_number->second;
  const std::string text(name_of_(rank, NameKind::tensor, name));
  const auto [by_name, is_first] = tensor_by_name_.try_emplace(text, facts_.tensors.size());
  if (is_first) facts_.tensors.push_back({.name = text, .first_rank = slots_[rank]});
  return by_number->second = by_name->second;
}

void Analysis::batch(const JoinedBatch& batch) {
  ++facts_.batches;
  const std::size_t tensors = batch.parts.front().tensors.size();
  facts_.fused_tensors += tensors;
  ++facts_.fused[power_of_two(tensors)];
  const RankPart* fastest = nullptr;
  for (const RankPart& part : batch.parts) {
    // All that is known of this rank is that it was ready.
    if (part.steps.empty() && !has_ended(part)) continue;
    RankFacts& facts = facts_of(part.index);
    const PhaseTimes times = take_phases(part);
    for (const JoinedTensor& tensor : part.tensors) {
      TensorFacts& known = facts_.tensors[tensor_of(part.index, tensor.name)];
      ++known.count;
      known.bytes = std::max(known.bytes, tensor.bytes);
      for (std::size_t phase = TraceFacts::kQueue; phase < TraceFacts::kPhases; ++phase)
        add_ns(known.sums[phase], times[phase]);
      if (tensor.error != 0) note_failure(part.index, tensor);
      if (tensor.end_ns == kNotKnown) facts.unfinished_ns.push_back(tensor.order_ns);
      if (tensor.submit_ns == kNotKnown) continue;
      facts.working.emplace(part.index, tensor.thread);
      add_ns(known.sums[TraceFacts::kNegotiate],
             std::max<std::int64_t>(0, tensor.order_ns - tensor.submit_ns));
      if (known.first_rank == slots_[part.index]) known.submits_ns.push_back(tensor.submit_ns);
    }
    if (has_ended(part)) facts.busy.push_back({part.begin_ns(), part.end_ns()});
    if (facts_.keeps_batches && has_ended(part)) keep_batch(batch, part);
    saw({part.ready_ns() == kNotKnown ? part.begin_ns() : part.ready_ns(), part.end_ns()});
    const JoinedStep* const run = part.main_run();
    const JoinedStep* const best = fastest == nullptr ? nullptr : fastest->main_run();
    if (run != nullptr && (best == nullptr || run->end_ns - run->begin_ns < best->end_ns - best->begin_ns))
      fastest = &part;
  }
  take_readiness(batch);
  if (fastest != nullptr) take_speed(batch, *fastest);
}

void Analysis::keep_batch(const JoinedBatch& batch, const RankPart& part) {
  RankFacts& facts = facts_of(part.index);
  const JoinedStep* const run = part.main_run();
  TraceFacts::RankBatch kept{.when = {part.begin_ns(), part.end_ns()},
                             .run_ns = run == nullptr ? 0 : run->end_ns - run->begin_ns,
                             .bytes = part.bytes(),
                             .bus_bytes = batch.parts.size() < 2 ? 0 : bus_bytes(batch, part)};
  for (const JoinedTensor& tensor : part.tensors) {
    kept.tensors.push_back(tensor_of(part.index, tensor.name));
    const std::int64_t begin_ns = tensor.submit_ns == kNotKnown ? tensor.order_ns : tensor.submit_ns;
    facts.outstanding.push_back({begin_ns, tensor.end_ns});
  }
  facts.batches.push_back(std::move(kept));
}

void Analysis::take_readiness(const JoinedBatch& batch) {
  std::int64_t before_ns = kNotKnown;
  const RankPart* const last = batch.last_ready(&before_ns);
  if (last == nullptr) return;
  ++facts_.compared;
  const std::size_t slot = slots_[last->index];
  ++facts_.last[slot];
  const std::int64_t last_ns = last->ready_ns();
  const auto latest = std::ranges::max_element(last->tensors, {}, &JoinedTensor::submit_ns);
  const std::size_t tensor = tensor_of(last->index, latest->name);
  ++facts_.tensors[tensor].last[slot];
  if (before_ns < last_ns) facts_.late.push_back({{before_ns, last_ns}, slot, latest->order, tensor});
  for (const RankPart& part : batch.parts) {
    if (const std::int64_t ready_ns = part.ready_ns(); ready_ns < last_ns)
      facts_of(part.index).missing.push_back({ready_ns, last_ns});
  }
}

Analysis::PhaseTimes Analysis::take_phases(const RankPart& part) {
  RankFacts& facts = facts_of(part.index);
  for (const JoinedTensor& tensor : part.tensors) {
    if (tensor.submit_ns != kNotKnown)
      facts.phases[TraceFacts::kNegotiate].push_back({tensor.submit_ns, tensor.order_ns});
  }
  std::array<Intervals, TraceFacts::kPhases> mine;
  for (const JoinedStep& step : part.steps) {
    const TraceFacts::Phase phase = Record::is_before_work(step.what)   ? TraceFacts::kQueue
                                    : step.what == Record::What::pack   ? TraceFacts::kPack
                                    : step.what == Record::What::unpack ? TraceFacts::kUnpack
                                                                        : TraceFacts::kCollective;
    if (step.end_ns != kNotKnown) mine[phase].push_back({step.begin_ns, step.end_ns});
  }
  PhaseTimes times{};
  for (std::size_t phase = TraceFacts::kQueue; phase < TraceFacts::kPhases; ++phase) {
    mine[phase] = united(std::move(mine[phase]));
    times[phase] = length_ns(mine[phase]);
    facts.phases[phase].insert(facts.phases[phase].end(), mine[phase].begin(), mine[phase].end());
  }
  return times;
}

void Analysis::take_speed(const JoinedBatch& batch, const RankPart& part) {
  const JoinedStep& run = *part.main_run();
  const double us = static_cast<double>(run.end_ns - run.begin_ns) / 1e3;
  if (us <= 0 || part.bytes() == 0 || batch.parts.size() < 2) return;
  TraceFacts::Speed& speed = facts_.speeds[{
      power_of_two(part.bytes()), std::string(name_of_(part.index, NameKind::text, part.backend)),
      std::string(name_of_(part.index, NameKind::text, run.algorithm))}];
  speed.algorithm.push_back(static_cast<float>(static_cast<double>(part.bytes()) / us));
  speed.bus.push_back(static_cast<float>(bus_bytes(batch, part) / us));
}

void Analysis::span(std::size_t rank, std::uint32_t name, const Interval& when) {
  auto& spans = facts_of(rank).spans;
  const std::string_view text = name_of_(rank, NameKind::span, name);
  const auto known = spans.find(text);
  (known != spans.end() ? known->second : spans[std::string(text)]).push_back(when);
}

void Analysis::failure(std::size_t rank, std::string_view tensor, std::string_view text, std::int64_t at_ns) {
  facts_.failures.push_back({slots_[rank], std::string(tensor), std::string(text), at_ns});
}

void Analysis::note_failure(std::size_t rank, const JoinedTensor& tensor) {
  failure(rank, name_of_(rank, NameKind::tensor, tensor.name), name_of_(rank, NameKind::error, tensor.error),
          tensor.end_ns == kNotKnown ? tensor.submit_ns : tensor.end_ns);
}

void Analysis::lonely_tensor(std::size_t rank, const JoinedTensor& tensor) {
  if (tensor.error != 0) {
    note_failure(rank, tensor);
  } else {
    facts_of(rank).unfinished_ns.push_back(tensor.submit_ns);
  }
}

void Analysis::wait(std::size_t rank, std::uint32_t thread, const Interval& when) {
  facts_of(rank).waits[{rank, thread}].push_back(when);
  saw(when);
}

/// Takes the step from the last mark to this one. The first mark of an epoch ends no step, since its begin is
/// not known.
void Analysis::step(std::size_t rank, std::uint32_t thread, std::int64_t at_ns, std::uint64_t step) {
  RankFacts& facts = facts_of(rank);
  facts.working.emplace(rank, thread);
  const auto [begin_ns, index] = std::exchange(facts.last_mark, {at_ns, rank});
  saw({at_ns, at_ns});
  if (begin_ns != kNotKnown && index == rank) facts.steps.push_back({step, {begin_ns, at_ns}});
}

void Analysis::communication(std::size_t rank, std::string_view name, std::uint64_t bytes,
                             const Interval& when) {
  ++facts_.batches;
  const auto [known, is_new] = tensor_by_name_.try_emplace(std::string(name), facts_.tensors.size());
  if (is_new) facts_.tensors.push_back({.name = std::string(name), .first_rank = slots_[rank]});
  TensorFacts& tensor = facts_.tensors[known->second];
  ++tensor.count;
  tensor.bytes = std::max(tensor.bytes, bytes);
  add_ns(tensor.sums[TraceFacts::kCollective], when.end_ns - when.begin_ns);
  facts_of(rank).busy.push_back(when);
  facts_of(rank).phases[TraceFacts::kCollective].push_back(when);
  saw(when);
}

void Analysis::computation(std::size_t rank, const Interval& when) {
  facts_of(rank).computing.push_back(when);
  saw(when);
}

void Analysis::whole_step(std::size_t rank, std::uint64_t step, const Interval& when) {
  facts_of(rank).steps.push_back({step, when});
  saw(when);
}

TraceReport Analysis::report(std::string source) {
  facts_.unite();
  return report_of(facts_, std::move(source));
}

}  // namespace dabke::timeline

#include "runtime/timeline/report/trace_facts.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace dabke::timeline {
namespace {

/// A tensor that was submitted fewer times does not show steps.
constexpr std::size_t kFewestSteps = 3;

}  // namespace

bool TraceFacts::have_changed(const Interval& when) const {
  return std::ranges::any_of(changes, [&](const EpochChange& change) {
    return change.when.begin_ns < when.end_ns && change.when.end_ns > when.begin_ns;
  });
}

std::int64_t TraceFacts::last_change_ns() const {
  return changes.empty() ? std::numeric_limits<std::int64_t>::min() : changes.back().when.end_ns;
}

void TraceFacts::leave_out_changes() {
  if (changes.empty()) return;
  std::erase_if(failures, [&](const Failure& one) {
    return std::ranges::any_of(changes, [&](const EpochChange& change) {
      return one.at_ns >= change.when.begin_ns && one.at_ns <= change.when.end_ns;
    });
  });
  Intervals cut;
  for (const EpochChange& change : changes) cut.push_back(change.when);
  cut = united(std::move(cut));
  std::erase_if(late, [&](const Late& one) { return have_changed(one.when); });
  for (RankFacts& facts : by_rank) {
    std::erase_if(facts.unfinished_ns, [&](std::int64_t at_ns) { return at_ns < last_change_ns(); });
    for (Intervals& phase : facts.phases) phase = without(phase, cut);
    for (Intervals* const all : {&facts.busy, &facts.exposed}) *all = without(*all, cut);
    facts.missing = without(united(std::move(facts.missing)), cut);
  }
}

void TraceFacts::unite() {
  for (RankFacts& facts : by_rank) {
    for (Intervals& phase : facts.phases) phase = united(std::move(phase));
    facts.busy = united(std::move(facts.busy));
    facts.computing = united(std::move(facts.computing));
    facts.outstanding = united(std::move(facts.outstanding));
    if (!facts.computing.empty())
      facts.exposed = without(facts.outstanding.empty() ? facts.busy : facts.outstanding, facts.computing);
    for (const auto& [thread, waits] : facts.waits) {
      if (facts.working.contains(thread))
        facts.exposed.insert(facts.exposed.end(), waits.begin(), waits.end());
    }
    facts.exposed = united(std::move(facts.exposed));
    std::ranges::stable_sort(facts.batches, {}, [](const RankBatch& batch) { return batch.when.begin_ns; });
    std::ranges::sort(facts.steps, {}, [](const StepTime& step) { return step.when.begin_ns; });
  }
  limit_to_profiles();
  leave_out_changes();
}

bool TraceFacts::is_covered(const Interval& when) const {
  constexpr double kLeastShare =
      0.9;  // the ranks end a step, and their profiles, at slightly different times
  if (!profiled) return true;
  const auto length = static_cast<double>(when.end_ns - when.begin_ns);
  return static_cast<double>(length_within_ns({*profiled}, when)) >= kLeastShare * length;
}

void TraceFacts::limit_to_profiles() {
  if (!profiled) return;
  for (RankFacts& facts : by_rank) {
    facts.exposed = common(facts.exposed, {*profiled});
    std::erase_if(facts.steps, [&](const StepTime& step) { return !is_covered(step.when); });
  }
}

bool TraceFacts::has_waits() const {
  return std::ranges::any_of(
      by_rank, [](const RankFacts& facts) { return !facts.exposed.empty() || !facts.computing.empty(); });
}

std::string TraceFacts::infer_steps() {
  std::map<std::size_t, std::size_t> names_by_count;
  for (const TensorFacts& tensor : tensors) ++names_by_count[tensor.submits_ns.size()];
  std::erase_if(names_by_count, [](const auto& one) { return one.first < kFewestSteps; });
  if (names_by_count.empty()) return {};
  const auto most = std::ranges::max_element(names_by_count, {}, [](const auto& one) { return one.second; });
  std::size_t often = 0;
  for (const auto& [count, names] : names_by_count) often += names;
  if (2 * most->second < often) return {};
  const TensorFacts* first = nullptr;
  for (const TensorFacts& tensor : tensors) {
    if (tensor.submits_ns.size() != most->first) continue;
    if (first == nullptr || tensor.submits_ns.front() < first->submits_ns.front()) first = &tensor;
  }
  RankFacts& facts = by_rank[first->first_rank];
  for (std::size_t i = 0; i + 1 < first->submits_ns.size(); ++i) {
    const Interval when{first->submits_ns[i], first->submits_ns[i + 1]};
    if (is_covered(when) && !have_changed(when)) facts.steps.push_back({i, when});
  }
  return fmt::format("from one '{}' to the next", first->name);
}

const std::vector<TraceFacts::StepTime>& TraceFacts::shown_steps() const {
  for (const RankFacts& facts : by_rank) {
    if (!facts.steps.empty()) return facts.steps;
  }
  static const std::vector<StepTime> none;
  return none;
}

std::size_t TraceFacts::counted_steps() const {
  return shown_steps().size() > 1 ? shown_steps().size() - 1 : shown_steps().size();
}

Interval TraceFacts::of_steps() const {
  const auto& steps = shown_steps();
  if (steps.empty()) return profiled.value_or(Interval{begin_ns, end_ns});
  Interval all = steps[steps.size() - counted_steps()].when;
  for (const StepTime& step : steps) all.end_ns = std::max(all.end_ns, step.when.end_ns);
  return all;
}

}  // namespace dabke::timeline

#include "runtime/timeline/report/trace_facts.h"

#include <algorithm>

#include <fmt/format.h>

namespace dabke::timeline {
namespace {

/// A tensor that was submitted fewer times does not show steps.
constexpr std::size_t kFewestSteps = 3;

}  // namespace

void TraceFacts::unite() {
  for (RankFacts& facts : by_rank) {
    for (Intervals& phase : facts.phases) phase = united(std::move(phase));
    facts.busy = united(std::move(facts.busy));
    facts.computing = united(std::move(facts.computing));
    if (!facts.computing.empty()) facts.exposed = without(facts.busy, facts.computing);
    for (const auto& [thread, waits] : facts.waits) {
      if (facts.working.contains(thread))
        facts.exposed.insert(facts.exposed.end(), waits.begin(), waits.end());
    }
    facts.exposed = united(std::move(facts.exposed));
    std::ranges::sort(facts.steps, {}, [](const StepTime& step) { return step.when.begin_ns; });
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
  for (std::size_t i = 0; i + 1 < first->submits_ns.size(); ++i)
    facts.steps.push_back({i, {first->submits_ns[i], first->submits_ns[i + 1]}});
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
  if (steps.empty()) return {begin_ns, end_ns};
  Interval all = steps[steps.size() - counted_steps()].when;
  for (const StepTime& step : steps) all.end_ns = std::max(all.end_ns, step.when.end_ns);
  return all;
}

}  // namespace dabke::timeline

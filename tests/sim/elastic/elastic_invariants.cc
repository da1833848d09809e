#include "tests/sim/elastic/elastic_invariants.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "runtime/bootstrap/elastic/words.h"
#include "tests/sim/pending_tokens.h"

namespace dabke::test {
namespace {

std::string text_of(const TrainingState& state) {
  return fmt::format("step {} with weights {}", state.step, state.weights);
}

}  // namespace

void ElasticInvariants::read_plan(std::uint64_t epoch, bootstrap::WorkerId worker, const std::string& text) {
  const auto [entry, fresh] = plans_.try_emplace(epoch, text);
  if (entry->second != text) {
    throw Violation(fmt::format("epoch {}: process {} reads the plan '{}', and others read '{}'", epoch,
                                worker, text, entry->second));
  }
}

void ElasticInvariants::execute(const bootstrap::EpochPlan& plan, Rank rank, bootstrap::WorkerId worker,
                                std::uint64_t current_epoch, std::uint64_t order_epoch) const {
  const bootstrap::WorkerId member = plan.members.at(static_cast<std::size_t>(rank)).worker;
  if (member == worker && current_epoch == plan.epoch && order_epoch == plan.epoch) return;
  throw Violation(
      fmt::format("process {}, of epoch {}, executes an order of epoch {} as rank {} of epoch "
                  "{}, which is process {}",
                  worker, current_epoch, order_epoch, rank, plan.epoch, member));
}

void ElasticInvariants::receive(const bootstrap::EpochPlan& plan, Rank rank, const std::string& name,
                                const Values& result, const Values& expected) const {
  if (result == expected) return;
  throw Violation(fmt::format(
      "epoch {}, rank {}: '{}' has the result [{}, {}], but its {} members make "
      "[{}, {}]",
      plan.epoch, rank, name, result[0], result[1], plan.members.size(), expected[0], expected[1]));
}

void ElasticInvariants::commit(std::uint64_t epoch, Rank rank, std::uint64_t number,
                               const TrainingState& state, std::uint64_t changes) {
  ++count_;
  const auto [entry, fresh] = committed_.try_emplace(std::pair(epoch, number), Commit{rank, state, changes});
  const Commit& first = entry->second;
  if (first.state != state) {
    throw Violation(fmt::format("epoch {}: commit {} is {} on rank {}, and {} on rank {}", epoch, number,
                                text_of(first.state), first.first, text_of(state), rank));
  }
  if (first.changes != changes) {
    throw Violation(
        fmt::format("epoch {}: rank {} sees {} announced changes at commit {}, and rank {} sees "
                    "{}",
                    epoch, first.first, first.changes, number, rank, changes));
  }
}

void ElasticInvariants::hold(const bootstrap::EpochPlan& plan, Rank rank,
                             const std::optional<std::uint64_t>& held) const {
  const auto newest = plan.newest_commit();
  const auto holders = plan.holders();
  const bool is_named = std::ranges::find(holders, rank) != holders.end();
  if (held > newest || is_named != (held && held == newest)) {
    throw Violation(
        fmt::format("epoch {}: rank {} holds commit {}; the newest is {}, and the roster {} it "
                    "as a holder",
                    plan.epoch, rank, bootstrap::optional_word(held), bootstrap::optional_word(newest),
                    is_named ? "names" : "does not name"));
  }
}

void ElasticInvariants::send_state(std::uint64_t epoch, Rank holder, const TrainingState& state) {
  const auto [entry, fresh] = sent_.try_emplace(epoch, holder, state);
  const auto& [first, sent] = entry->second;
  if (sent != state) {
    throw Violation(fmt::format("epoch {}: holder {} sends {}, and holder {} sends {}", epoch, first,
                                text_of(sent), holder, text_of(state)));
  }
}

void ElasticInvariants::fail(const bootstrap::EpochPlan& plan, Rank rank, const std::string& name,
                             const Status& why, bool is_anybody_lost) const {
  if (is_anybody_lost) return;
  throw Violation(fmt::format("epoch {}, rank {}: '{}' fails though no member was lost: {}", plan.epoch, rank,
                              name, why.message()));
}

}  // namespace dabke::test

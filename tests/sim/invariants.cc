#include "tests/sim/invariants.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/base/pair_sets.h"

namespace dabke::test {

Invariants::Invariants(int ranks, const negotiation::ProcessSets& first) : tokens_(ranks), ranks_(at(ranks)) {
  for (const ProcessSetId id : first.ids()) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      if (first.contains(id, rank)) ranks_[at(rank)].sets[id] = static_cast<int>(first.ranks_of(id)->size());
    }
    sets_[id] = *first.ranks_of(id);
  }
}

void Invariants::change_set(Rank rank, const negotiation::ProcessSetAction& action) {
  if (action.ranks.empty()) {
    ranks_[at(rank)].sets.erase(action.id);
    return;
  }
  const auto [entry, fresh] = sets_.try_emplace(action.id, action.ranks);
  if (entry->second != action.ranks)
    throw Violation(fmt::format("process set {} has other ranks on rank {} than elsewhere", action.id, rank));
  if (std::ranges::binary_search(action.ranks, rank))
    ranks_[at(rank)].sets[action.id] = static_cast<int>(action.ranks.size());
}

int Invariants::members_of(Rank rank, const Request& request) const {
  if (is_pair(request.process_set)) {
    const auto pair = ranks_of_pair(request.process_set);
    if (rank == pair[0] || rank == pair[1]) return 2;
  }
  const auto& sets = ranks_[at(rank)].sets;
  const auto set = sets.find(request.process_set);
  if (set == sets.end())
    throw Violation(fmt::format("rank {} executes '{}' of a set that it is not in", rank, request.name));
  return set->second;
}

void Invariants::execute(Rank rank, const negotiation::ExecuteAction& action) {
  for (const negotiation::OrderedRequest& ordered : action.requests) check_order(rank, ordered);
  check_batches(rank, action);
}

void Invariants::check_order(Rank rank, const negotiation::OrderedRequest& ordered) {
  std::uint64_t& last_number = ranks_[at(rank)].last_number;
  if (ordered.number <= last_number)
    throw Violation(fmt::format("rank {} executes order {} after {}", rank, ordered.number, last_number));
  last_number = ordered.number;
  const int members = members_of(rank, *ordered.agreed);
  const auto [entry, fresh] =
      agreed_.try_emplace(ordered.number, Agreed{ordered.agreed, ordered.contributors, ordered.changes});
  const Agreed& agreed = entry->second;
  const bool same = fresh || (agreed.request->name == ordered.agreed->name &&
                              agreed.request->process_set == ordered.agreed->process_set &&
                              difference(*agreed.request, *ordered.agreed).empty() &&
                              agreed.contributors == ordered.contributors);
  if (!same) {
    throw Violation(
        fmt::format("order {} is '{}' of set {} from {} ranks here, and '{}' of set {} from {} on rank {}",
                    ordered.number, agreed.request->name, agreed.request->process_set, agreed.contributors,
                    ordered.agreed->name, ordered.agreed->process_set, ordered.contributors, rank));
  }
  check_changes(rank, ordered, agreed.changes);
  if (++entry->second.seen == members) agreed_.erase(entry);
  if (ordered.token != negotiation::Token::none && !difference(*ordered.agreed, *ordered.request).empty()) {
    throw Violation(fmt::format("rank {} runs '{}' with another signature than it submitted", rank,
                                ordered.agreed->name));
  }
}

void Invariants::check_changes(Rank rank, const negotiation::OrderedRequest& ordered, std::uint64_t agreed) {
  const bool is_of_world = ordered.agreed->process_set == kWorldSet;
  std::uint64_t& last = ranks_[at(rank)].changes;
  if (ordered.changes != agreed || ordered.changes < (is_of_world ? last : 0)) {
    throw Violation(fmt::format("order {} carries {} changes on rank {}, {} elsewhere, after one with {}",
                                ordered.number, ordered.changes, rank, agreed, last));
  }
  if (is_of_world) last = ordered.changes;
}

void Invariants::check_batches(Rank rank, const negotiation::ExecuteAction& action) {
  std::size_t tensors = 0;
  for (const negotiation::OrderedRequest& ordered : action.requests)
    tensors += ordered.agreed->tensors.size();
  if (tensors != action.tensors.size())
    throw Violation(fmt::format("rank {} runs {} tensors of {}", rank, action.tensors.size(), tensors));
  for (auto first = action.tensors.begin(); first != action.tensors.end();) {
    const int members = members_of(rank, *action.requests[first->request].agreed);
    BatchOfTensors batch;
    const auto number = first->batch;
    for (; first != action.tensors.end() && first->batch == number; ++first) {
      batch.emplace_back(action.requests[first->request].number, first->tensor);
    }
    check_batch(rank, batch, members);
    if (batch.front() <= ranks_[at(rank)].last_batch)
      throw Violation(fmt::format("rank {} runs the batch of order {} late", rank, batch.front().first));
    ranks_[at(rank)].last_batch = batch.front();
  }
}

/// Checks that the other members of the set run the same batch.
void Invariants::check_batch(Rank rank, const BatchOfTensors& batch, int members) {
  const auto [entry, fresh] = batches_.try_emplace(batch.front(), RunBatch{batch});
  if (entry->second.tensors != batch) {
    throw Violation(fmt::format("the batch of order {} has {} tensors on rank {}, and {} on another rank",
                                batch.front().first, batch.size(), rank, entry->second.tensors.size()));
  }
  if (++entry->second.seen == members) batches_.erase(entry);
}

}  // namespace dabke::test

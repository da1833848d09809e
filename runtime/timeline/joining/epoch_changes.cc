#include "runtime/timeline/joining/epoch_changes.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace dabke::timeline {
namespace {

using Ranks = std::span<const RankInEpoch>;

std::vector<Ranks> by_epoch(const std::vector<RankInEpoch>& ranks) {
  std::vector<Ranks> epochs;
  for (auto first = ranks.begin(); first != ranks.end();) {
    const auto end =
        std::find_if(first, ranks.end(), [&](const auto& one) { return one.epoch != first->epoch; });
    epochs.emplace_back(first, end);
    first = end;
  }
  return epochs;
}

void lower(std::optional<std::int64_t>& least, const std::optional<std::int64_t>& time) {
  if (time && (!least || *time < *least)) least = time;
}

std::int64_t last_of(Ranks ranks) { return std::ranges::max(ranks, {}, &RankInEpoch::last_ns).last_ns; }

/// If the epochs between have left no file, it is not known which ranks of `before` are in `after`.
bool goes_on(const RankInEpoch& rank, Ranks after) {
  if (after.front().epoch != rank.epoch + 1) return true;
  return std::ranges::any_of(after.front().roster.members,
                             [&](const auto& member) { return member.former_rank == rank.rank; });
}

/// Nothing if no survivor has recorded its leave or an error.
std::optional<std::int64_t> begin_of(Ranks before, Ranks after) {
  std::optional<std::int64_t> begin;
  for (const RankInEpoch& rank : before) {
    if (!goes_on(rank, after)) continue;
    lower(begin, rank.moments.leave_ns);
    lower(begin, rank.moments.error_ns);
  }
  return begin;
}

std::optional<std::int64_t> first_work_of(Ranks ranks) {
  std::optional<std::int64_t> first;
  for (const RankInEpoch& rank : ranks) lower(first, rank.moments.work_ns);
  return first;
}

}  // namespace

void EpochMoments::take(const Record& record) {
  switch (record.what) {
    case Record::What::order:
    case Record::What::step: lower(work_ns, record.time_ns); break;
    case Record::What::done: error_ns.reset(); break;
    case Record::What::error:
      if (!error_ns) error_ns = record.time_ns;
      break;
    case Record::What::leave: lower(leave_ns, record.time_ns); break;
    default: break;
  }
}

std::vector<EpochChange> changes_of(const std::vector<RankInEpoch>& ranks) {
  const std::vector<Ranks> epochs = by_epoch(ranks);
  std::vector<EpochChange> changes;
  for (std::size_t i = 1; i < epochs.size(); ++i) {
    const Ranks before = epochs[i - 1], after = epochs[i];
    const bool is_next = after.front().epoch == before.front().epoch + 1;
    const auto begin = begin_of(before, after);
    if (!begin || std::ranges::all_of(after, [](const auto& rank) { return rank.roster.is_late; })) continue;
    EpochChange change{.epoch = after.front().epoch,
                       .text = change_text(after.front().roster, is_next ? &before.front().roster : nullptr)};
    change.when.begin_ns = *begin;
    if (!changes.empty()) change.when.begin_ns = std::max(change.when.begin_ns, changes.back().when.begin_ns);
    std::int64_t end = last_of(after);
    if (i + 1 < epochs.size()) end = begin_of(after, epochs[i + 1]).value_or(end);
    change.when.end_ns = std::max(change.when.begin_ns, first_work_of(after).value_or(end));
    if (!changes.empty())
      changes.back().when.end_ns = std::min(changes.back().when.end_ns, change.when.begin_ns);
    changes.push_back(std::move(change));
  }
  return changes;
}

}  // namespace dabke::timeline

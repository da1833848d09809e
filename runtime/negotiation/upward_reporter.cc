#include "runtime/negotiation/upward_reporter.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/negotiation/tables/name_key.h"

namespace dabke::negotiation {
namespace {

/// The device types with which this rank cannot take part.
std::vector<wire::NotServed> not_served_by(const NegotiationState& state) {
  std::vector<wire::NotServed> all;
  for (const DeviceType type : kDeviceTypes) {
    if (type != DeviceType::host && !state.serves.contains(type)) all.push_back({type, state.options.rank});
  }
  return all;
}

}  // namespace

void UpwardReporter::announce(TensorEntry& entry, TimePoint now) {
  const Request& mine = *entry.waiting.front().request;
  const bool cached =
      entry.slot != wire::kNoSlot && agree(*entry.agreed, mine) && entry.agreed->priority == mine.priority;
  ++(cached ? cache_counts_.hits : cache_counts_.misses);
  if (!cached) {
    // The tensor goes instead of its batch, so that the others of the batch do not wait for it.
    if (entry.batch != 0) report(state_.learned.release(entry.batch), now);
    return report_in_full(entry, 0, {{{entry.waiting.front().request, {}}}, 1, false}, now);
  }
  if (entry.batch == 0) return report_slot(entry, 0, now);
  entry.held = true;
  report(state_.learned.ready(entry.batch, entry.slot, now), now);
  if (entry.awaited) let_go(entry, now);
}

void UpwardReporter::announce_join(ProcessSetId set, TimePoint now) {
  if (!state_.joins.contains(set)) return;
  report(state_.learned.release_all(), now);
  wire::JoinReport join{set, state_.options.rank, {}, not_served_by(state_)};
  state_.tensors.for_each([&](const TensorEntry& entry) {
    const bool is_queued = entry.process_set == set && entry.waiting.size() > 1;
    // Requests that wait for their members, joined or not, are as before. So are messages from any rank,
    // which no other rank has under this name.
    if (is_queued && !is_among_members(entry.waiting.front().request->kind) &&
        !is_from_any(*entry.waiting.front().request))
      join.unfinished.push_back(entry.name);
  });
  note_join(0, join, now);
}

void UpwardReporter::report(const std::vector<wire::Slot>& slots, TimePoint now) {
  held_until_.set(state_.learned.next_deadline());
  for (const wire::Slot slot : slots) {
    TensorEntry* entry = state_.cache.find(slot);
    if (entry == nullptr || !std::exchange(entry->held, false)) continue;
    report_slot(*entry, 0, now);
  }
}

void UpwardReporter::want(ProcessSetId set, const std::string& key, TimePoint now) {
  if (state_.over || !state_.learned.any()) return;
  if (is_group_key(key)) {
    if (IncompleteGroup* group = state_.groups.find(set, key.substr(0, key.find('\0'))))
      group->awaited = true;
  }
  TensorEntry* wanted = state_.tensors.find(set, key);
  if (wanted == nullptr || wanted->waiting.empty() || wanted->batch == 0) return;
  if (!wanted->held) return note_awaited(*wanted, now);
  note_wanted(wanted->slot, now);
  report(state_.learned.release(wanted->batch), now);
}

void UpwardReporter::let_go(TensorEntry& entry, TimePoint now) {
  entry.awaited = true;
  if (entry.held) report(state_.learned.release(entry.batch), now);
}

void UpwardReporter::report_slot(TensorEntry& entry, int reporter, TimePoint now) {
  took(entry, state_.collector.report(entry, reporter, now), reporter, now);
}

void UpwardReporter::report_in_full(TensorEntry& entry, int reporter, const wire::Report& report,
                                    TimePoint now) {
  took(entry, state_.collector.report(entry, reporter, report, now), reporter, now);
}

void UpwardReporter::took(TensorEntry& entry, Collector::Took took, int reporter, TimePoint now) {
  // The order stream shows this rank that the set or one of its ranks is gone. The rank then fails the
  // request by itself.
  if (took == Collector::Took::no) return state_.tensors.tidy(entry);
  if (took == Collector::Took::twice) {
    return endings_.abort(
        {Code::internal, fmt::format("{} reported {} twice before it was ordered",
                                     state_.who(state_.collector.rank_of(reporter)), shown(entry.name))});
  }
  const bool complete = state_.collector.is_complete(entry);
  note_readiness(entry, reporter, complete);
  if (!complete) return stalls_.note_incomplete(entry);
  if (entry.collection.count > 1) {
    // Many names wait at the same time for one rank: that time counts once.
    const TimePoint from = std::max(entry.collection.since, late_until_);
    late_until_ = now;
    note_late(state_.collector.rank_of(reporter), now - from, request_of(entry).kind);
  }
  pass_up(entry, now);
  if (entry.waiting.empty()) state_.tensors.tidy(entry);
}

/// Hands a name that is complete here to the parent, or to the sequencer.
void UpwardReporter::pass_up(TensorEntry& entry, TimePoint now) {
  Collector::Taken taken = state_.collector.take(entry);
  if (state_.sequencer) {
    state_.sequencer->complete(entry, std::move(taken), now);
  } else if (taken.by_slot) {
    message_.slots.push_back(entry.slot);
  } else {
    if (taken.not_served) {
      const DeviceType type = taken.report.variants.front().request->device_type;
      message_.joins.push_back({entry.process_set, -1, {}, {{type, *taken.not_served}}});
    }
    message_.reports.push_back(std::move(taken.report));
  }
}

void UpwardReporter::from_child(int reporter, const wire::ReadyMessage& message, TimePoint now) {
  if (reporter <= 0) return;
  const Duration late_before = std::chrono::microseconds(message.late_us);
  if (message.late_rank >= 0) note_late(message.late_rank, late_before, kind_of(message));
  for (const wire::JoinReport& join : message.joins) {
    state_.collector.note_not_served(join.process_set, join.not_served);
  }
  for (const wire::Slot slot : message.slots) slot_from_child(reporter, slot, message.seen, now);
  for (const wire::Report& report : message.reports) {
    const Request& request = *report.variants.front().request;
    state_.meet(request.process_set);
    const NameKey key(request);
    if (children_.is_void(request.process_set, key, message.seen) ||
        !state_.collector.is_open(request.process_set))
      continue;
    report_in_full(state_.tensors.get(request.process_set, key), reporter, report, now);
  }
  for (const wire::JoinReport& join : message.joins) {
    if (join.last >= 0) note_join(reporter, join, now);
  }
  for (const wire::Slot slot : message.wanted) note_wanted(slot, now);
  for (const wire::Slot slot : message.awaited) {
    TensorEntry* entry = state_.cache.find(slot);
    // Not if the awaited order crossed the message: no thread waits for the next request of the name yet.
    if (entry != nullptr && entry->ordered_at <= message.seen) note_awaited(*entry, now);
  }
  children_.note_seen(reporter, message.seen, state_.last_order);
}

void UpwardReporter::slot_from_child(int reporter, wire::Slot slot, std::uint64_t seen, TimePoint now) {
  if (TensorEntry* entry = state_.cache.find(slot)) {
    if (!children_.is_void(entry->process_set, entry->name, seen)) report_slot(*entry, reporter, now);
    return;
  }
  // The child reported it before it had seen the eviction.
  const RequestRef agreed = state_.cache.evicted(slot);
  if (agreed == nullptr) return;
  const NameKey key(*agreed);
  if (children_.is_void(agreed->process_set, key, seen) || !state_.collector.is_open(agreed->process_set))
    return;
  report_in_full(state_.tensors.get(agreed->process_set, key), reporter,
                 {{{agreed, {}}}, state_.collector.ranks_behind(agreed->process_set, reporter), false}, now);
}

void UpwardReporter::note_join(int reporter, const wire::JoinReport& join, TimePoint now) {
  const ProcessSetId set = join.process_set;
  if (!state_.collector.is_open(set)) return;
  state_.collector.note_not_served(set, join.not_served);
  if (state_.collector.join(set, reporter, join.unfinished)) last_joined_[set] = join.last;
  std::vector<TensorEntry*> complete;
  state_.tensors.for_each([&](TensorEntry& entry) {
    if (entry.process_set == set && state_.collector.is_complete(entry)) complete.push_back(&entry);
  });
  std::ranges::sort(complete, {}, [](const TensorEntry* entry) { return entry->collection.since; });
  for (TensorEntry* entry : complete) pass_up(*entry, now);
  if (!state_.collector.all_joined(set)) return;
  wire::JoinReport all{set, last_joined_[set], state_.collector.unfinished(set),
                       state_.collector.not_served(set)};
  if (!state_.sequencer) {
    message_.joins.push_back(std::move(all));
  } else if (all.unfinished.empty()) {
    state_.sequencer->all_joined(set, all.last, now);
  }
}

void UpwardReporter::note_wanted(wire::Slot slot, TimePoint now) {
  if (state_.sequencer) {
    state_.sequencer->wanted(slot, now);
  } else {
    message_.wanted.push_back(slot);
  }
}

/// The waiting rank has reported the entry; other ranks may keep it back.
void UpwardReporter::note_awaited(TensorEntry& entry, TimePoint now) {
  if (entry.awaited) return;
  let_go(entry, now);
  if (state_.sequencer) {
    state_.sequencer->awaited(entry, now);
  } else {
    message_.awaited.push_back(entry.slot);
  }
}

void UpwardReporter::note_readiness(TensorEntry& entry, int reporter, bool complete) {
  if (entry.collection.count == 1) entry.collection.recording = recording_;
  if (recording_ == 0 || entry.collection.recording != recording_) return;
  const Request& request = request_of(entry);
  readiness_.push_back({request.name, request.kind, entry.process_set,
                        state_.sets.set_rank(entry.process_set, state_.collector.rank_of(reporter)),
                        entry.collection.count == 1, complete});
}

void UpwardReporter::note_late(Rank rank, Duration by, CollectiveKind kind) {
  if (state_.sequencer) {
    if (by > Duration::zero()) lateness_.push_back({rank, by, kind});
    return;
  }
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(by).count();
  const auto late_us = static_cast<std::uint32_t>(std::min<std::int64_t>(us, 0xffffffff));
  if (message_.late_rank >= 0 && message_.late_us >= late_us) return;
  message_.late_rank = rank;
  message_.late_us = late_us;
}

CollectiveKind UpwardReporter::kind_of(const wire::ReadyMessage& message) const {
  if (!message.reports.empty()) return message.reports.front().variants.front().request->kind;
  const TensorEntry* entry = message.slots.empty() ? nullptr : state_.cache.find(message.slots.front());
  return entry == nullptr ? CollectiveKind::allreduce : entry->agreed->kind;
}

void UpwardReporter::flush() {
  if (state_.is_root() || state_.over) return;
  std::erase_if(message_.awaited, [this](wire::Slot slot) {  // ordered meanwhile
    const TensorEntry* entry = state_.cache.find(slot);
    return entry == nullptr || !entry->awaited;
  });
  const bool nothing_new = message_.slots.empty() && message_.reports.empty() && message_.joins.empty() &&
                           message_.wanted.empty() && message_.awaited.empty();
  if (nothing_new && unreported_ < kMostUnreported) return;
  unreported_ = 0;
  message_.seen = state_.last_order;
  outbox_.send(state_.parent(), std::exchange(message_, {}));
}

void UpwardReporter::void_reports(ProcessSetId set, const std::string& key, std::uint64_t until) {
  children_.void_reports(set, key, until);
  unreported_ += kMostUnreported;  // every report is compared with these, so the parent is notified at once
}

void UpwardReporter::evict(TensorEntry& entry, std::uint64_t until) {
  if (children_.has_reporters_below(entry.process_set)) {
    state_.cache.evict(entry, until);
  } else {
    state_.cache.unbind(entry);
  }
  ++unreported_;
}

}  // namespace dabke::negotiation

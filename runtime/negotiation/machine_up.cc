// The machine's way up: what is ready in this rank's subtree.
#include <algorithm>

#include <fmt/format.h>

#include "runtime/negotiation/machine.h"
#include "runtime/negotiation/name_key.h"

namespace dabke {
void Machine::announce(TensorEntry& entry, TimePoint now) {
  const Request& mine = *entry.waiting.front().request;
  const bool cached = entry.slot != kNoSlot && difference(*entry.agreed, mine).empty() &&
                      entry.agreed->priority == mine.priority;
  ++(cached ? cache_counts_.hits : cache_counts_.misses);
  if (!cached) {
    // It goes in its batch's place, so that the others of the batch do not wait for it.
    if (entry.batch != 0) report_slots(learned_.release(entry.batch), now);
    return report_in_full(entry, 0, {{{entry.waiting.front().request, {}}}, 1, false}, now);
  }
  if (entry.batch == 0) return report_slot(entry, 0, now);
  entry.held = true;
  report_slots(learned_.ready(entry.batch, entry.slot, now), now);
  if (entry.awaited) let_go(entry, now);
}

/// Reports slots of this rank itself.
void Machine::report_slots(const std::vector<Slot>& slots, TimePoint now) {
  for (const Slot slot : slots) {
    TensorEntry* entry = cache_.find(slot);
    if (entry == nullptr || !std::exchange(entry->held, false)) continue;
    report_slot(*entry, 0, now);
  }
}

void Machine::report_slot(TensorEntry& entry, int reporter, TimePoint now) {
  took(entry, collector_.report(entry, reporter, now), reporter, now);
}

void Machine::report_in_full(TensorEntry& entry, int reporter, const Report& report, TimePoint now) {
  took(entry, collector_.report(entry, reporter, report, now), reporter, now);
}

void Machine::took(TensorEntry& entry, Collector::Took took, int reporter, TimePoint now) {
  // The rank learns from the order stream that the set or one of its ranks is gone, and fails the request by
  // itself.
  if (took == Collector::Took::no) return tensors_.tidy(entry);
  if (took == Collector::Took::twice) {
    return abort({Code::internal, fmt::format("{} reported {} twice before it was ordered",
                                              who(collector_.rank_of(reporter)), shown(entry.name))});
  }
  const bool complete = collector_.is_complete(entry);
  note_readiness(entry, reporter, complete);
  if (!complete) {
    TimePoint check = kNever;
    if (options_.stall_check > Duration::zero()) check = entry.collection.since + options_.stall_check;
    if (options_.stall_shutdown > Duration::zero()) {
      check = std::min(check, entry.collection.since + options_.stall_shutdown);
    }
    if (entry.slot == kNoSlot && sets_.count() > 1) check = std::min(check, entry.collection.suspect_at);
    next_check_ = std::min(next_check_, check);
    return;
  }
  if (entry.collection.count > 1) {
    // Many names wait at the same time for one rank: that time counts once.
    const TimePoint from = std::max(entry.collection.since, late_until_);
    late_until_ = now;
    note_late(collector_.rank_of(reporter), now - from, request_of(entry).kind);
  }
  Collector::Taken taken = collector_.take(entry);
  if (sequencer_) {
    sequencer_->complete(entry, std::move(taken), now);
  } else if (taken.by_slot) {
    up_.slots.push_back(entry.slot);
  } else {
    up_.reports.push_back(std::move(taken.report));
  }
  if (entry.waiting.empty()) tensors_.tidy(entry);
}

void Machine::note_readiness(TensorEntry& entry, int reporter, bool complete) {
  if (entry.collection.count == 1) entry.collection.recording = recording_;
  if (recording_ == 0 || entry.collection.recording != recording_) return;
  const Request& request = request_of(entry);
  readiness_.push_back({request.name, request.kind,
                        sets_.set_rank(entry.process_set, collector_.rank_of(reporter)),
                        entry.collection.count == 1, complete});
}

void Machine::note_join(int reporter, const JoinReport& join, TimePoint now) {
  const ProcessSetId set = join.process_set;
  if (!collector_.is_open(set)) return;
  if (collector_.join(set, reporter, join.unfinished)) last_joined_[set] = join.last;
  std::vector<TensorEntry*> complete;
  tensors_.for_each([&](TensorEntry& entry) {
    if (entry.process_set == set && collector_.is_complete(entry)) complete.push_back(&entry);
  });
  std::ranges::sort(complete, {}, [](const TensorEntry* entry) { return entry->collection.since; });
  for (TensorEntry* entry : complete) {
    Collector::Taken taken = collector_.take(*entry);
    if (sequencer_) {
      sequencer_->complete(*entry, std::move(taken), now);
    } else {
      up_.reports.push_back(std::move(taken.report));
    }
  }
  if (!collector_.all_joined(set)) return;
  JoinReport all{set, last_joined_[set], collector_.unfinished(set)};
  if (!sequencer_) {
    up_.joins.push_back(std::move(all));
  } else if (all.unfinished.empty()) {
    sequencer_->all_joined(set, all.last, now);
  }
}

void Machine::from_child(int reporter, const ReadyMessage& message, TimePoint now) {
  if (reporter <= 0) return;
  const Duration late_before = std::chrono::microseconds(message.late_us);
  if (message.late_rank >= 0) note_late(message.late_rank, late_before, kind_of(message));
  for (const Slot slot : message.slots) slot_from_child(reporter, slot, message.seen, now);
  for (const Report& report : message.reports) {
    const Request& request = *report.variants.front().request;
    const NameKey key(request);
    if (is_void(request.process_set, key, message.seen) || !collector_.is_open(request.process_set)) continue;
    report_in_full(tensors_.get(request.process_set, key), reporter, report, now);
  }
  for (const JoinReport& join : message.joins) note_join(reporter, join, now);
  for (const Slot slot : message.wanted) note_wanted(slot, now);
  for (const Slot slot : message.awaited) {
    TensorEntry* entry = cache_.find(slot);
    // Not when the order that is waited for crossed the message: the next request of the name is nobody's
    // yet.
    if (entry != nullptr && entry->ordered_at <= message.seen) note_awaited(*entry, now);
  }
  note_seen(reporter, message.seen);
}

void Machine::note_wanted(Slot slot, TimePoint now) {
  if (sequencer_) {
    sequencer_->wanted(slot, now);
  } else {
    up_.wanted.push_back(slot);
  }
}

/// What is waited for has been reported where it is waited for; others may keep it back.
void Machine::note_awaited(TensorEntry& entry, TimePoint now) {
  if (entry.awaited) return;
  let_go(entry, now);
  if (sequencer_) {
    sequencer_->awaited(entry, now);
  } else {
    up_.awaited.push_back(entry.slot);
  }
}

void Machine::let_go(TensorEntry& entry, TimePoint now) {
  entry.awaited = true;
  if (entry.held) report_slots(learned_.release(entry.batch), now);
}

void Machine::slot_from_child(int reporter, Slot slot, std::uint64_t seen, TimePoint now) {
  if (TensorEntry* entry = cache_.find(slot)) {
    if (!is_void(entry->process_set, entry->name, seen)) report_slot(*entry, reporter, now);
    return;
  }
  // Reported before the child knew of the eviction.
  const RequestRef agreed = cache_.evicted(slot);
  if (agreed == nullptr) return;
  const NameKey key(*agreed);
  if (is_void(agreed->process_set, key, seen) || !collector_.is_open(agreed->process_set)) return;
  report_in_full(tensors_.get(agreed->process_set, key), reporter,
                 {{{agreed, {}}}, collector_.ranks_behind(agreed->process_set, reporter), false}, now);
}

bool Machine::is_void(ProcessSetId set, const std::string& name, std::uint64_t seen) const {
  return std::ranges::any_of(
      voids_, [&](const Void& one) { return one.set == set && seen < one.until && one.name == name; });
}

/// Whether children may have reported something of this set that an order ends before they know of it.
bool Machine::has_reporters_below(ProcessSetId set) const {
  if (!collector_.is_open(set)) return false;
  for (int reporter = 1; reporter < collector_.reporters(); ++reporter) {
    if (collector_.concerns(set, reporter)) return true;
  }
  return false;
}

/// The last order that all children know that report anything of this set. Of a set that has ended nothing
/// counts any more, so who has left the job is in none that is looked at.
std::uint64_t Machine::seen_by_all(ProcessSetId set) const {
  std::uint64_t by_all = last_order_;
  if (!collector_.is_open(set)) return by_all;
  for (int reporter = 1; reporter < collector_.reporters(); ++reporter) {
    if (collector_.concerns(set, reporter))
      by_all = std::min(by_all, seen_[static_cast<std::size_t>(reporter)]);
  }
  return by_all;
}

void Machine::note_seen(int reporter, std::uint64_t seen) {
  const std::uint64_t before = std::exchange(seen_[static_cast<std::size_t>(reporter)], seen);
  if (cache_.count_evicted() != 0) {
    cache_.forget_evicted([&](ProcessSetId set, std::uint64_t oldest) {
      const bool tells = before < oldest && oldest <= seen && collector_.concerns(set, reporter);
      return tells || !collector_.is_open(set) ? seen_by_all(set) : 0;
    });
  }
  if (voids_.empty()) return;
  std::erase_if(voids_, [&](const Void& one) { return one.until <= seen_by_all(one.set); });
}

const Request& Machine::request_of(const TensorEntry& entry) {
  const auto& candidates = entry.collection.candidates;
  return candidates.empty() ? *entry.agreed : *candidates.front().request;
}

CollectiveKind Machine::kind_of(const ReadyMessage& message) const {
  if (!message.reports.empty()) return message.reports.front().variants.front().request->kind;
  const TensorEntry* entry = message.slots.empty() ? nullptr : cache_.find(message.slots.front());
  return entry == nullptr ? CollectiveKind::allreduce : entry->agreed->kind;
}

void Machine::note_late(Rank rank, Duration by, CollectiveKind kind) {
  if (sequencer_) {
    if (by > Duration::zero()) lateness_.push_back({rank, by, kind});
    return;
  }
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(by).count();
  const auto late_us = static_cast<std::uint32_t>(std::min<std::int64_t>(us, 0xffffffff));
  if (up_.late_rank >= 0 && up_.late_us >= late_us) return;
  up_.late_rank = rank;
  up_.late_us = late_us;
}

void Machine::flush_up() {
  if (is_root() || over_) return;
  std::erase_if(up_.awaited, [this](Slot slot) {  // ordered meanwhile
    const TensorEntry* entry = cache_.find(slot);
    return entry == nullptr || !entry->awaited;
  });
  const bool nothing_new = up_.slots.empty() && up_.reports.empty() && up_.joins.empty() &&
                           up_.wanted.empty() && up_.awaited.empty();
  if (nothing_new && untold_ < kMostUntold) return;
  untold_ = 0;
  up_.seen = last_order_;
  send(parent(), std::exchange(up_, {}));
}

}  // namespace dabke

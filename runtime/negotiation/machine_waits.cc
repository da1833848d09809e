// What this rank itself waits for, and whether anybody above it hears of that.
//
//   1. Whatever waits here past the warning time is told to the parent in the tree (NoticeMessage), which
//      says that it has heard (HeardMessage) and passes it on. So it comes to the root, which asks all ranks.
//   2. Whoever hears nothing at all from its parent for a while after it has told it something tells by
//      itself that the parent does not answer, writes a dump with those below it, and ends the job when the
//      wait has lasted long enough for that. So a root or a host's leader that stands still is found by those
//      who report through it, though it is the one who would ask.
#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "runtime/negotiation/machine.h"
#include "runtime/negotiation/name_key.h"

namespace dabke {
namespace {

/// Dumps that no root has counted, by the rank that does not answer: equal on all who miss it.
constexpr std::uint64_t kSilentIncidents = std::uint64_t{1} << 32;

}  // namespace

/// How long a wait may last until it is looked at.
Duration Machine::patience() const {
  if (options_.stall_shutdown <= Duration::zero()) return options_.stall_check;
  return std::min(options_.stall_check, options_.stall_shutdown);
}

bool Machine::is_to_fail(Duration age) const {
  return options_.stall_shutdown > Duration::zero() && age >= options_.stall_shutdown;
}

/// When a wait that has lasted since then is to be looked at next.
TimePoint Machine::next_look(TimePoint since, TimePoint now) const {
  const TimePoint warned = since + options_.stall_check;
  TimePoint next = warned > now ? warned : now + options_.stall_check;
  if (options_.stall_shutdown <= Duration::zero()) return next;
  const TimePoint fails = since + options_.stall_shutdown;
  return std::min(next, fails > now ? fails : now + kAnswerTime);
}

void Machine::look_for_long_waits(TimePoint now) {
  next_wait_check_ = kNever;
  const TensorEntry* oldest = nullptr;
  const auto is_long = [&](TimePoint since) {
    next_wait_check_ = std::min(next_wait_check_, next_look(since, now));
    return now - since >= patience();
  };
  const auto order = [](const TensorEntry& entry) {
    return std::tie(entry.waiting.front().since, entry.name);
  };
  const auto look_at = [&](const TensorEntry& entry) {
    if (entry.waiting.empty() || entry.held || !is_long(entry.waiting.front().since)) return;
    if (oldest == nullptr || order(entry) < order(*oldest)) oldest = &entry;
  };
  if (!is_root()) tensors_.for_each(look_at);  // the root sees its own among those that are incomplete
  if (oldest != nullptr) {
    tell({StallSubject::tensor, oldest->process_set, 0, oldest->name,
          age_ms(oldest->waiting.front().since, now), false},
         now);
  }
  for (const auto& [set, join] : joins_) {
    if (is_long(join.moved_at))
      tell({StallSubject::join, set, 0, std::string(name_of(CollectiveKind::join)),
            age_ms(join.moved_at, now), false},
           now);
  }
}

void Machine::note_long_run(const Running& running, TimePoint now) {
  if (over_) return;
  tell({StallSubject::batch, running.process_set, running.number, running.what, age_ms(running.since, now),
        false},
       now);
}

/// Something of this set has been ordered: whoever has joined it does not wait in vain.
void Machine::note_progress(ProcessSetId set, TimePoint now) {
  if (const auto join = joins_.find(set); join != joins_.end()) join->second.moved_at = now;
  std::erase_if(inquiries_, [set](const Inquiry& inquiry) {
    return inquiry.subject == StallSubject::join && inquiry.process_set == set;
  });
}

/// Here on the root, by a message elsewhere.
void Machine::tell(const NoticeMessage& notice, TimePoint now) {
  if (is_root()) return heed(notice, now);
  send(parent(), notice);
  if (notice.suspect) return;  // it has not waited for long yet
  if (word_by_ == kNever) word_by_ = now + kAnswerTime;
  if (unheard_.name.empty() || notice.age_ms >= unheard_.age_ms) {
    unheard_ = notice;
    unheard_at_ = now;
  }
}

void Machine::heed(const NoticeMessage& notice, TimePoint now) {
  const Duration age = std::chrono::milliseconds(notice.age_ms);
  inquire({.purpose = notice.suspect    ? Inquiry::Purpose::process_set_mismatch
                      : is_to_fail(age) ? Inquiry::Purpose::stall_shutdown
                                        : Inquiry::Purpose::stall_report,
           .subject = notice.subject,
           .process_set = notice.process_set,
           .number = notice.number,
           .name = notice.name,
           .since = now - age},
          now);
}

/// Whatever the parent says, it says that it is there.
void Machine::parent_is_heard() {
  word_by_ = kNever;
  unheard_ = {};
}

void Machine::parent_is_silent(TimePoint now) {
  const NoticeMessage notice = std::exchange(unheard_, {});
  word_by_ = kNever;
  const Duration age = std::chrono::milliseconds(notice.age_ms) + (now - unheard_at_);
  const std::string what = notice.subject == StallSubject::tensor ? shown(notice.name) : notice.name;
  const std::string text = fmt::format(
      "Stalled for {} s: {} of process set {} waits, and {}, through which {} reports, does not answer: {}.",
      seconds_to_text(age), what, notice.process_set, who(parent()), who(options_.rank),
      process_of(parent()));
  if (is_to_fail(age)) return abort({Code::stalled, text});
  const std::string key = fmt::format("silent {}", parent());
  const StallLog::Told* const told = stall_log_.find(key, now - age);
  const std::string line =
      told == nullptr
          ? text
          : fmt::format(
                "Still stalled, for {} s: {} waits for {}, which does not answer, as reported {} s ago.",
                seconds_to_text(age), what, who(parent()), seconds_to_text(now - told->full_at));
  stall_log_.note(key, "", told == nullptr, now);
  actions_.emplace_back(WarnAction{line});
  if (told == nullptr) dump({kSilentIncidents + static_cast<std::uint64_t>(parent()), false, text});
}

/// What is known of the process of a rank that does not answer.
std::string Machine::process_of(Rank rank) const {
  const std::string known = options_.process_of ? options_.process_of(rank) : "";
  return known.empty() ? "its process is stopped or busy, or the network to it is" : known;
}

}  // namespace dabke

#include "runtime/negotiation/stalls/stall_inspector.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "runtime/negotiation/tables/name_key.h"

namespace dabke::negotiation {
namespace {

constexpr std::size_t kMostFound = 16;  // reported at the same time

/// The numbers of dumps that no root has counted, by the rank that does not answer: equal on all ranks that
/// miss it.
constexpr std::uint64_t kSilentIncidents = std::uint64_t{1} << 32;

}  // namespace

void StallInspector::look_for_stalls(TimePoint now) {
  std::vector<Inquiry> found;
  state_.tensors.for_each([&](TensorEntry& entry) {
    Collection& collection = entry.collection;
    if (collection.empty()) return;
    Inquiry inquiry{.process_set = entry.process_set,
                    .name = entry.name,
                    .signature = request_of(entry).describe(),
                    .since = collection.since};
    const auto due = [&](TimePoint at) {
      if (now < at) next_check_.set_by(at);
      return now >= at;
    };
    if (is_suspect(entry) && due(collection.suspect_at)) {
      collection.suspect_at = now + std::max<Duration>(kSuspectAfter, now - collection.since);
      next_check_.set_by(collection.suspect_at);
      inquiry.purpose = Inquiry::Purpose::process_set_mismatch;
      found.push_back(inquiry);
    }
    if (state_.options.stall_check <= Duration::zero()) return;
    // The root has no record of a name for which only ranks below this one wait.
    if (state_.options.stall_shutdown > Duration::zero() &&
        due(collection.since + state_.options.stall_shutdown)) {
      next_check_.set_by(now + kAnswerTime);
      inquiry.purpose = Inquiry::Purpose::stall_shutdown;
      found.push_back(inquiry);
    } else if (due(collection.warned + state_.options.stall_check)) {
      collection.warned = now;
      next_check_.set_by(now + state_.options.stall_check);
      inquiry.purpose = Inquiry::Purpose::stall_report;
      found.push_back(inquiry);
    }
  });
  std::ranges::sort(found, {},
                    [](const Inquiry& inquiry) { return std::tuple(inquiry.since, inquiry.name); });
  for (std::size_t i = 0; i < found.size(); ++i) {
    Inquiry& inquiry = found[i];
    if (i >= kMostFound) {
      if (state_.is_root()) {
        outbox_.add(
            WarnAction{fmt::format("Stalled as well, for as long or less: {} more, of which {} comes next.",
                                   found.size() - i, shown(inquiry.name))});
      }
      return;
    }
    if (state_.is_root()) {
      inquiries_.open(std::move(inquiry), now);
    } else {
      notify({wire::StallSubject::tensor, inquiry.process_set, 0, inquiry.name, age_ms(inquiry.since, now),
              inquiry.purpose == Inquiry::Purpose::process_set_mismatch},
             now);
    }
  }
}

void StallInspector::look_for_long_waits(TimePoint now) {
  const TensorEntry* oldest = nullptr;
  const auto is_long = [&](TimePoint since) {
    next_wait_check_.set_by(next_look(since, now));
    return now - since >= patience();
  };
  const auto order = [](const TensorEntry& entry) {
    return std::tie(entry.waiting.front().since, entry.name);
  };
  const auto look_at = [&](const TensorEntry& entry) {
    if (entry.waiting.empty() || entry.held) return;
    // The root finds the others among the incomplete names.
    if (state_.is_root() && !is_from_any(*entry.waiting.front().request)) return;
    if (!is_long(entry.waiting.front().since)) return;
    if (oldest == nullptr || order(entry) < order(*oldest)) oldest = &entry;
  };
  state_.tensors.for_each(look_at);
  if (oldest != nullptr) {
    notify({wire::StallSubject::tensor, oldest->process_set, 0, oldest->name,
            age_ms(oldest->waiting.front().since, now), false},
           now);
  }
  for (const auto& [set, join] : state_.joins) {
    if (is_long(join.moved_at))
      notify({wire::StallSubject::join, set, 0, std::string(name_of(CollectiveKind::join)),
              age_ms(join.moved_at, now), false},
             now);
  }
}

/// The time that a wait may last before it is checked.
Duration StallInspector::patience() const {
  if (state_.options.stall_shutdown <= Duration::zero()) return state_.options.stall_check;
  return std::min(state_.options.stall_check, state_.options.stall_shutdown);
}

bool StallInspector::is_to_fail(Duration age) const {
  return state_.options.stall_shutdown > Duration::zero() && age >= state_.options.stall_shutdown;
}

/// The next time to check a wait that has lasted since `since`.
TimePoint StallInspector::next_look(TimePoint since, TimePoint now) const {
  const TimePoint warned = since + state_.options.stall_check;
  TimePoint next = warned > now ? warned : now + state_.options.stall_check;
  if (state_.options.stall_shutdown <= Duration::zero()) return next;
  const TimePoint fails = since + state_.options.stall_shutdown;
  return std::min(next, fails > now ? fails : now + kAnswerTime);
}

void StallInspector::note_long_run(const RunningBatch& running, TimePoint now) {
  if (state_.over) return;
  notify({wire::StallSubject::batch, running.process_set, running.number, running.what,
          age_ms(running.since, now), false},
         now);
}

/// Passes the notice up to the root, which acts on it.
void StallInspector::notify(const wire::NoticeMessage& notice, TimePoint now) {
  if (state_.is_root()) return heed(notice, now);
  outbox_.send(state_.parent(), notice);
  if (notice.suspect) return;  // it has not waited for long yet
  if (!word_by_.is_set()) word_by_.set(now + kAnswerTime);
  if (unheard_.name.empty() || notice.age_ms >= unheard_.age_ms) {
    unheard_ = notice;
    unheard_at_ = now;
  }
}

void StallInspector::heed(const wire::NoticeMessage& notice, TimePoint now) {
  state_.meet(notice.process_set);
  const Duration age = std::chrono::milliseconds(notice.age_ms);
  inquiries_.open({.purpose = notice.suspect    ? Inquiry::Purpose::process_set_mismatch
                              : is_to_fail(age) ? Inquiry::Purpose::stall_shutdown
                                                : Inquiry::Purpose::stall_report,
                   .subject = notice.subject,
                   .process_set = notice.process_set,
                   .number = notice.number,
                   .name = notice.name,
                   .since = now - age},
                  now);
}

void StallInspector::parent_is_heard() {
  word_by_.clear();
  unheard_ = {};
}

void StallInspector::parent_is_silent(TimePoint now) {
  const wire::NoticeMessage notice = std::exchange(unheard_, {});
  const Duration age = std::chrono::milliseconds(notice.age_ms) + (now - unheard_at_);
  const std::string what = notice.subject == wire::StallSubject::tensor ? shown(notice.name) : notice.name;
  const std::string text =
      fmt::format("Stalled for {} s: {}{} waits, but {}, through which {} reports, does not answer: {}.",
                  seconds_to_text(age), what, set_to_text(notice.process_set), state_.who(state_.parent()),
                  state_.who(state_.options.rank), process_of(state_, state_.parent()));
  if (is_to_fail(age)) return endings_.abort({Code::stalled, text});
  const std::string key = fmt::format("silent {}", state_.parent());
  const StallLog::Reported* const reported = reported_of_parent_.find(key, now - age);
  const std::string line =
      reported == nullptr
          ? text
          : fmt::format(
                "Still stalled, for {} s: {} waits for {}, which does not answer, as reported {} s ago.",
                seconds_to_text(age), what, state_.who(state_.parent()),
                seconds_to_text(now - reported->full_at));
  reported_of_parent_.note(key, "", reported == nullptr, now);
  outbox_.add(WarnAction{line});
  if (reported == nullptr)
    dumps_.obey({kSilentIncidents + static_cast<std::uint64_t>(state_.parent()), false, text});
}

void StallInspector::answer(const wire::InquiryMessage& message, TimePoint now) {
  if (state_.over) return;
  state_.meet(message.process_set);
  for (int reporter = 1; reporter < state_.collector.reporters(); ++reporter) {
    if (message.everybody || state_.collector.concerns(message.process_set, reporter))
      outbox_.send(state_.collector.rank_of(reporter), message);
  }
  if (auto mine = answers_.answer(message, now)) give_answer(std::move(*mine));
}

void StallInspector::take_answer(wire::AnswerMessage answer, TimePoint now) {
  inquiries_.take(std::move(answer));
  inquiries_.judge(now);
}

void StallInspector::give_answer(wire::AnswerMessage answer) {
  if (!state_.is_root()) return outbox_.send(state_.parent(), answer);
  inquiries_.take(std::move(answer));
}

void StallInspector::give_stack(std::uint64_t number, const std::string& text, TimePoint now) {
  if (state_.over) return;
  for (wire::AnswerMessage& answer : answers_.give_stack(number, text)) give_answer(std::move(answer));
  inquiries_.judge(now);
}

}  // namespace dabke::negotiation

#include "runtime/negotiation/stalls/group_inspector.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/negotiation/tables/inquiry.h"
#include "runtime/negotiation/tables/name_key.h"

namespace dabke::negotiation {
namespace {

constexpr Duration kBetweenInquiries = std::chrono::milliseconds(500);  // many ranks ask for the same group
constexpr Duration kHistory = std::chrono::minutes(1);                  // longer than any inquiry needs
constexpr std::size_t kMostHistories = 1000;
constexpr std::size_t kMostInquiries = 16;  // at the same time
constexpr std::size_t kMostMembersInAnswer = 1000;

}  // namespace

Status GroupInspector::add(const RequestRef& member, const std::string& group, std::uint32_t group_size,
                           TimePoint now) {
  DABKE_RETURN_IF_ERROR(state_.groups.add(member, group, group_size, now));
  next_check_.set_by(next_check(*state_.groups.find(member->process_set, group), now));
  return {};
}

/// The time at which to notify the root next.
TimePoint GroupInspector::next_check(const IncompleteGroup& group, TimePoint now) const {
  TimePoint next = group.asked + std::max<Duration>(kSuspectAfter, group.asked - group.since);
  const auto at_age = [&](Duration age) {
    if (age > Duration::zero() && group.asked < group.since + age) next = std::min(next, group.since + age);
  };
  if (state_.options.stall_check > Duration::zero()) {
    next = std::min(next, group.asked + std::max(state_.options.stall_check, kBetweenInquiries));
    at_age(state_.options.stall_check);
    at_age(state_.options.stall_shutdown);
  }
  return std::max(next, now);
}

void GroupInspector::look(TimePoint now) {
  std::vector<wire::GroupNoticeMessage> due;
  state_.groups.for_each([&](const IncompleteGroups::Key& key, IncompleteGroup& group) {
    if (now >= next_check(group, TimePoint::min())) {
      group.asked = now;
      due.push_back({key.first, key.second, age_ms(group.since, now)});
    }
    next_check_.set_by(next_check(group, now));
  });
  for (const wire::GroupNoticeMessage& notice : due) {
    if (state_.is_root()) {
      inquire(notice, now);
    } else {
      outbox_.send(state_.parent(), notice);
    }
  }
}

/// Returns 1 if a warning is due, 2 if the end is due, and 0 if neither is.
int GroupInspector::stage_of(Duration age) const {
  if (state_.options.stall_check <= Duration::zero()) return 0;
  if (state_.options.stall_shutdown > Duration::zero() && age >= state_.options.stall_shutdown) return 2;
  return age >= state_.options.stall_check ? 1 : 0;
}

void GroupInspector::inquire(const wire::GroupNoticeMessage& notice, TimePoint now) {
  const Duration age = std::chrono::milliseconds(notice.age_ms);
  const IncompleteGroups::Key key(notice.process_set, notice.group);
  const auto under_way = std::ranges::find_if(inquiries_, [&](const GroupInquiry& other) {
    return other.process_set == key.first && other.group == key.second;
  });
  if (under_way != inquiries_.end()) {
    under_way->age = std::max(under_way->age, age);
    return;
  }
  const auto* ranks = state_.sets.ranks_of(key.first);
  if (ranks == nullptr || inquiries_.size() >= kMostInquiries) return;
  if (state_.sequencer->is_being_failed(key.first, group_key(key.second))) return;
  if (history_.size() >= kMostHistories) {
    const Duration old = std::max(kHistory, 2 * state_.options.stall_check);
    std::erase_if(history_, [&](const auto& one) { return now - one.second.inquired > old; });
  }
  History& history = history_[key];
  if (now < history.inquired + kBetweenInquiries && stage_of(age) <= stage_of(history.age)) return;
  history.inquired = now;
  history.age = age;
  GroupInquiry inquiry{.id = next_id_++,
                       .process_set = key.first,
                       .group = key.second,
                       .age = age,
                       .deadline = now + kAnswerTime,
                       .asked = *ranks,
                       .answers = {}};
  const wire::GroupInquiryMessage message{inquiry.id, inquiry.process_set, inquiry.group};
  answers_due_.set_by(inquiry.deadline);
  inquiries_.push_back(std::move(inquiry));
  answer(message, now);
  judge(now);
}

void GroupInspector::answer(const wire::GroupInquiryMessage& message, TimePoint now) {
  if (state_.over) return;
  for (int reporter = 1; reporter < state_.collector.reporters(); ++reporter) {
    if (state_.collector.concerns(message.process_set, reporter))
      outbox_.send(state_.collector.rank_of(reporter), message);
  }
  if (!state_.takes_part_in(message.process_set)) return;
  wire::GroupAnswerMessage mine{.id = message.id, .rank = state_.options.rank};
  mine.joined = state_.joins.contains(message.process_set);
  const TensorEntry* whole = state_.tensors.find(message.process_set, group_key(message.group));
  if (whole != nullptr && !whole->waiting.empty()) {
    for (const TensorSpec& tensor : whole->waiting.front().request->tensors)
      mine.members.push_back(tensor.name);
    mine.size = mine.came = static_cast<std::uint32_t>(mine.members.size());
    mine.refused = whole->waiting.front().request->refused;
  } else if (const IncompleteGroup* group = state_.groups.find(message.process_set, message.group)) {
    for (const RequestRef& member : group->members) {
      for (const TensorSpec& tensor : member->tensors) mine.members.push_back(tensor.name);
      if (mine.refused.is_ok()) mine.refused = member->refused;
    }
    mine.size = group->size;
    mine.came = group->came();
    mine.age_ms = age_ms(group->since, now);
  }
  std::ranges::sort(mine.members);
  if (mine.members.size() > kMostMembersInAnswer) mine.members.resize(kMostMembersInAnswer);
  if (state_.is_root()) return take_answer(std::move(mine));
  outbox_.send(state_.parent(), mine);
}

void GroupInspector::take_answer(wire::GroupAnswerMessage answer) {
  const auto inquiry = std::ranges::find(inquiries_, answer.id, &GroupInquiry::id);
  if (inquiry == inquiries_.end()) return;
  inquiry->age = std::max<Duration>(inquiry->age, std::chrono::milliseconds(answer.age_ms));
  inquiry->answers.insert_or_assign(answer.rank, std::move(answer));
}

void GroupInspector::judge(TimePoint now) {
  while (!state_.over) {
    const auto done = std::ranges::find_if(inquiries_, [now](const GroupInquiry& inquiry) {
      return inquiry.everybody_answered() || now >= inquiry.deadline;
    });
    if (done == inquiries_.end()) return note_deadline();
    const GroupInquiry inquiry = std::move(*done);
    inquiries_.erase(done);
    judge(inquiry, now);
  }
}

void GroupInspector::judge(const GroupInquiry& inquiry, TimePoint now) {
  if (const Status failed = group_failure(inquiry, *state_.options.topology); !failed.is_ok()) {
    history_.erase({inquiry.process_set, inquiry.group});
    return state_.sequencer->force_error(inquiry.process_set, group_key(inquiry.group), failed.code(),
                                         failed.message(), now);
  }
  const int stage = stage_of(inquiry.age);
  if (stage == 0) return;
  const auto text = incomplete_group_text(inquiry, *state_.options.topology);
  if (!text) return;
  if (stage == 2) return endings_.abort({Code::stalled, *text});
  if (is_whole_somewhere(inquiry)) return;  // reported like any name that some rank waits for
  History& history = history_[{inquiry.process_set, inquiry.group}];
  if (now < history.warned + state_.options.stall_check) return;
  history.warned = now;
  outbox_.add(WarnAction{*text});
  dumps_.ask_after_warning(*text, now);
}

void GroupInspector::forget_inquiry(const TensorEntry& entry) {
  if (!is_group_key(entry.name)) return;
  std::erase_if(inquiries_, [&](const GroupInquiry& inquiry) {
    return inquiry.process_set == entry.process_set && group_key(inquiry.group) == entry.name;
  });
  note_deadline();
}

void GroupInspector::note_deadline() {
  TimePoint next = kNever;
  for (const GroupInquiry& inquiry : inquiries_) next = std::min(next, inquiry.deadline);
  answers_due_.set(next);
}

}  // namespace dabke::negotiation

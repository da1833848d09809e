// The machine's watch over groups whose members come one by one.
//
//   1. A rank on which a group stays incomplete tells the root: after a second, then whenever the time has
//      doubled, and when it is time for a warning or for the end.
//   2. The root asks the ranks of the set what they have of it.
//   3. Ranks that can never make the same group of it get a mismatch, all others a warning, or the end of the
//      job.
#include <algorithm>

#include <fmt/format.h>

#include "runtime/negotiation/machine.h"
#include "runtime/negotiation/name_key.h"

namespace dabke {
namespace {

constexpr Duration kBetweenGroupInquiries =
    std::chrono::milliseconds(500);  // many ranks ask for the same group
constexpr Duration kBetweenGroupDumps = std::chrono::seconds(30);
constexpr Duration kHistory = std::chrono::minutes(1);  // longer than any inquiry needs
constexpr std::size_t kMostHistories = 1000;
constexpr std::size_t kMostGroupInquiries = 16;  // at the same time
constexpr std::size_t kMostMembersInAnswer = 1000;

}  // namespace

Status Machine::submit_member(const RequestRef& member, const std::string& group, std::uint32_t group_size,
                              TimePoint now) {
  DABKE_RETURN_IF_ERROR(check(*member));
  last_submit_ = now;
  DABKE_RETURN_IF_ERROR(groups_.add(member, group, group_size, now));
  next_check_ = std::min(next_check_, next_group_check(*groups_.find(member->process_set, group), now));
  return {};
}

/// When the root is to hear of it next.
TimePoint Machine::next_group_check(const IncompleteGroup& group, TimePoint now) const {
  TimePoint next = group.asked + std::max<Duration>(kSuspectAfter, group.asked - group.since);
  const auto at_age = [&](Duration age) {
    if (age > Duration::zero() && group.asked < group.since + age) next = std::min(next, group.since + age);
  };
  if (options_.stall_check > Duration::zero()) {
    next = std::min(next, group.asked + std::max(options_.stall_check, kBetweenGroupInquiries));
    at_age(options_.stall_check);
    at_age(options_.stall_shutdown);
  }
  return std::max(next, now);
}

void Machine::look_for_incomplete_groups(TimePoint now) {
  std::vector<GroupNoticeMessage> due;
  groups_.for_each([&](const IncompleteGroups::Key& key, IncompleteGroup& group) {
    if (now >= next_group_check(group, TimePoint::min())) {
      group.asked = now;
      due.push_back({key.first, key.second, age_ms(group.since, now)});
    }
    next_check_ = std::min(next_check_, next_group_check(group, now));
  });
  for (const GroupNoticeMessage& notice : due) {
    if (is_root()) {
      inquire_group(notice, now);
    } else {
      send(parent(), notice);
    }
  }
}

/// Whether a warning is due, or the end.
int Machine::stage_of(Duration age) const {
  if (options_.stall_check <= Duration::zero()) return 0;
  if (options_.stall_shutdown > Duration::zero() && age >= options_.stall_shutdown) return 2;
  return age >= options_.stall_check ? 1 : 0;
}

void Machine::inquire_group(const GroupNoticeMessage& notice, TimePoint now) {
  const Duration age = std::chrono::milliseconds(notice.age_ms);
  const IncompleteGroups::Key key(notice.process_set, notice.group);
  const auto under_way = std::ranges::find_if(group_inquiries_, [&](const GroupInquiry& other) {
    return other.process_set == key.first && other.group == key.second;
  });
  if (under_way != group_inquiries_.end()) {
    under_way->age = std::max(under_way->age, age);
    return;
  }
  const auto* ranks = sets_.ranks_of(key.first);
  if (ranks == nullptr || group_inquiries_.size() >= kMostGroupInquiries) return;
  if (sequencer_->is_being_failed(key.first, group_key(key.second))) return;
  if (group_history_.size() >= kMostHistories) {
    const Duration old = std::max(kHistory, 2 * options_.stall_check);
    std::erase_if(group_history_, [&](const auto& one) { return now - one.second.inquired > old; });
  }
  GroupHistory& history = group_history_[key];
  if (now < history.inquired + kBetweenGroupInquiries && stage_of(age) <= stage_of(history.age)) return;
  history.inquired = now;
  history.age = age;
  GroupInquiry inquiry{.id = next_inquiry_++,
                       .process_set = key.first,
                       .group = key.second,
                       .age = age,
                       .deadline = now + kAnswerTime,
                       .asked = *ranks,
                       .answers = {}};
  const GroupInquiryMessage message{inquiry.id, inquiry.process_set, inquiry.group};
  group_inquiries_.push_back(std::move(inquiry));
  answer_group(message, now);
  judge_group_inquiries(now);
}

/// Passes the question on, and answers it for this rank.
void Machine::answer_group(const GroupInquiryMessage& message, TimePoint now) {
  if (over_) return;
  for (int reporter = 1; reporter < collector_.reporters(); ++reporter) {
    if (collector_.concerns(message.process_set, reporter)) send(collector_.rank_of(reporter), message);
  }
  if (!sets_.contains(message.process_set, options_.rank)) return;
  GroupAnswerMessage mine{.id = message.id, .rank = options_.rank};
  mine.joined = joins_.contains(message.process_set);
  const TensorEntry* whole = tensors_.find(message.process_set, group_key(message.group));
  if (whole != nullptr && !whole->waiting.empty()) {
    for (const TensorSpec& tensor : whole->waiting.front().request->tensors)
      mine.members.push_back(tensor.name);
    mine.size = mine.came = static_cast<std::uint32_t>(mine.members.size());
  } else if (const IncompleteGroup* group = groups_.find(message.process_set, message.group)) {
    for (const RequestRef& member : group->members) {
      for (const TensorSpec& tensor : member->tensors) mine.members.push_back(tensor.name);
    }
    mine.size = group->size;
    mine.came = group->came();
    mine.age_ms = age_ms(group->since, now);
  }
  std::ranges::sort(mine.members);
  if (mine.members.size() > kMostMembersInAnswer) mine.members.resize(kMostMembersInAnswer);
  if (is_root()) return take_group_answer(std::move(mine));
  send(parent(), mine);
}

void Machine::take_group_answer(GroupAnswerMessage answer) {
  const auto inquiry = std::ranges::find(group_inquiries_, answer.id, &GroupInquiry::id);
  if (inquiry == group_inquiries_.end()) return;
  inquiry->age = std::max<Duration>(inquiry->age, std::chrono::milliseconds(answer.age_ms));
  inquiry->answers.insert_or_assign(answer.rank, std::move(answer));
}

void Machine::judge_group_inquiries(TimePoint now) {
  while (!over_) {
    const auto done = std::ranges::find_if(group_inquiries_, [now](const GroupInquiry& inquiry) {
      return inquiry.everybody_answered() || now >= inquiry.deadline;
    });
    if (done == group_inquiries_.end()) return;
    const GroupInquiry inquiry = std::move(*done);
    group_inquiries_.erase(done);
    judge(inquiry, now);
  }
}

void Machine::judge(const GroupInquiry& inquiry, TimePoint now) {
  if (const auto mismatch = group_mismatch(inquiry, *options_.topology)) {
    group_history_.erase({inquiry.process_set, inquiry.group});
    return sequencer_->force_error(inquiry.process_set, group_key(inquiry.group), Code::mismatch, *mismatch,
                                   now);
  }
  const int stage = stage_of(inquiry.age);
  if (stage == 0) return;
  const auto text = incomplete_group_text(inquiry, *options_.topology);
  if (!text) return;
  if (stage == 2) return abort({Code::stalled, *text});
  if (is_whole_somewhere(inquiry)) return;  // reported as any name that somebody waits for
  GroupHistory& history = group_history_[{inquiry.process_set, inquiry.group}];
  if (now < history.warned + options_.stall_check) return;
  history.warned = now;
  actions_.emplace_back(WarnAction{*text});
  if (now < next_stall_dump_) return;
  next_stall_dump_ = now + std::max(options_.stall_check, kBetweenGroupDumps);
  ask_for_dumps(*text, Dumped::as_warned, now);
}

/// The answers were given before an order of the name, some of them perhaps after it.
void Machine::forget_group_inquiry(const TensorEntry& entry) {
  if (group_inquiries_.empty() || !is_group_key(entry.name)) return;
  std::erase_if(group_inquiries_, [&](const GroupInquiry& inquiry) {
    return inquiry.process_set == entry.process_set && group_key(inquiry.group) == entry.name;
  });
}

/// Fails those of one set, or all where `set` is nothing. Nobody waits for the members that are still to
/// come.
void Machine::fail_incomplete_groups(std::optional<ProcessSetId> set, const Status& cause) {
  std::vector<IncompleteGroups::Key> failed;
  groups_.for_each([&](const IncompleteGroups::Key& key, const IncompleteGroup& group) {
    if (set && key.first != *set) return;
    failed.push_back(key);
    actions_.emplace_back(FailGroupAction{
        key.first,
        key.second,
        {cause.code(), fmt::format("{} had come: {}", group.describe(key.second), cause.message())}});
  });
  for (const IncompleteGroups::Key& key : failed) groups_.forget(key.first, key.second);
}

/// An error that all ranks have agreed on finds this group without some of its members.
void Machine::fail_incomplete_group(ProcessSetId set, const std::string& key, const Status& why) {
  const std::string group = key.substr(0, key.find('\0'));
  if (!groups_.fail(set, group, why)) return;
  actions_.emplace_back(FailGroupAction{set, group, why});
}

}  // namespace dabke

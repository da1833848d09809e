#include "runtime/negotiation/stalls/stall_answers.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/negotiation/tables/name_key.h"

namespace dabke::negotiation {
namespace {

constexpr Duration kStackTime = std::chrono::seconds(3);
constexpr std::size_t kShownInstead = 6;

/// "allreduce 'x'", "barrier": for a name that waits here.
std::string with_collective(const TensorEntry& entry) {
  const CollectiveKind kind = entry.waiting.front().request->kind;
  return moves_data(kind) ? fmt::format("{} {}", name_of(kind), shown(entry.name)) : shown(entry.name);
}

}  // namespace

std::optional<wire::AnswerMessage> StallAnswers::answer(const wire::InquiryMessage& message, TimePoint now) {
  if (state_.over || (!message.everybody && !state_.takes_part_in(message.process_set))) return std::nullopt;
  // Only awaited ranks are asked, but a question goes to all ranks that report through the same rank.
  const auto members = members_named(message.name);
  if (members && std::ranges::find(*members, state_.options.rank) == members->end()) return std::nullopt;
  wire::AnswerMessage mine;
  mine.id = message.id;
  mine.rank = state_.options.rank;
  mine.last_order = state_.last_order;
  if (last_submit_ != TimePoint{}) {
    mine.idle_ms = std::max<std::uint64_t>(1, age_ms(last_submit_, now));
  }
  list_what_waits(message, mine);
  const bool is_waited_for = message.subject == wire::StallSubject::join
                                 ? !state_.joins.contains(message.process_set)
                                 : std::ranges::find(mine.sets, message.process_set) == mine.sets.end();
  if (!state_.options.gives_stacks || message.everybody || !is_waited_for) return mine;
  if (without_stack_.empty()) {
    stack_due_.set(now + kStackTime);
    stack_asked_ = outbox_.ask_for_stack();
  } else {  // asked at the same moment, or nearly
    mine.inside = without_stack_.front().inside;
    mine.inside_number = without_stack_.front().inside_number;
    mine.inside_ms = without_stack_.front().inside_ms;
  }
  without_stack_.push_back(std::move(mine));
  return std::nullopt;
}

void StallAnswers::list_what_waits(const wire::InquiryMessage& message, wire::AnswerMessage& mine) const {
  const bool is_tensor = message.subject == wire::StallSubject::tensor;
  for (const ProcessSetId set : state_.sets.ids()) {
    const TensorEntry* entry = is_tensor ? state_.tensors.find(set, message.name) : nullptr;
    if (entry == nullptr || entry->waiting.empty()) continue;
    mine.sets.push_back(set);
    mine.signatures.push_back(entry->waiting.front().request->describe());
  }
  for (const auto& [set, join] : state_.joins) mine.joined.push_back(set);
  state_.tensors.for_each([&](const TensorEntry& entry) {
    if (entry.waiting.empty()) return;
    const bool same_name = is_tensor && entry.name == message.name;
    if (same_name && entry.process_set == message.process_set) return;
    ++mine.instead_count;
    std::string other = with_collective(entry);
    if (entry.process_set != message.process_set && !is_pair(entry.process_set))
      other += fmt::format(" in process set {}", entry.process_set);
    mine.instead.push_back(std::move(other));
  });
  state_.groups.for_each([&](const IncompleteGroups::Key& key, const IncompleteGroup& group) {
    ++mine.instead_count;
    mine.instead.push_back(group.describe(key.second));
  });
  std::ranges::sort(mine.instead);
  if (mine.instead.size() > kShownInstead) mine.instead.resize(kShownInstead);
}

void StallAnswers::note_running(const RunningBatch& running, TimePoint now) {
  for (wire::AnswerMessage& answer : without_stack_) {
    answer.inside = running.what;
    answer.inside_number = running.number;
    answer.inside_ms = age_ms(running.since, now);
  }
}

std::vector<wire::AnswerMessage> StallAnswers::give_stack(std::uint64_t number, const std::string& text) {
  if (number < stack_asked_) return {};
  stack_due_.clear();
  for (wire::AnswerMessage& answer : without_stack_) answer.stack = text;
  return std::exchange(without_stack_, {});
}

}  // namespace dabke::negotiation

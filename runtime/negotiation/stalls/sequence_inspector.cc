#include "runtime/negotiation/stalls/sequence_inspector.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "runtime/base/pair_sets.h"
#include "runtime/base/text/message_name.h"
#include "runtime/negotiation/tables/name_key.h"

namespace dabke::negotiation {
namespace {

constexpr Duration kAnswersBy = std::chrono::seconds(2);
constexpr Duration kPlaceBy = std::chrono::milliseconds(400);
constexpr std::size_t kMostAsked = 16;  // at the same time

bool is_message(const Request& request) { return request.kind == CollectiveKind::send_recv; }

/// "Mismatched calls: rank 0 on a waits in 'x' (allreduce of float32 [4]) at train.py:7; ...".
std::string mismatch_text(const std::map<Rank, wire::SequenceAnswerMessage>& answers,
                          const Topology& topology) {
  struct Side {
    std::vector<Rank> ranks;
    std::string place;  // of the first rank that has sent one
  };
  std::map<std::string, Side> sides;
  for (const auto& [rank, answer] : answers) {
    Side& side = sides[fmt::format("{} ({})", shown(answer.name), answer.call)];
    side.ranks.push_back(rank);
    if (side.place.empty()) side.place = answer.place;
  }
  std::vector<std::pair<std::string, Side>> ordered(sides.begin(), sides.end());
  std::ranges::sort(ordered, {}, [](const auto& one) { return one.second.ranks.front(); });
  std::string text = "Mismatched calls:";
  for (const auto& [call, side] : ordered) {
    text += fmt::format("{} {} {} in {}{}", text.ends_with(':') ? "" : ";", topology.names(side.ranks),
                        side.ranks.size() == 1 ? "waits" : "wait", call,
                        side.place.empty() ? "" : " at " + side.place);
  }
  return text + ". All ranks of the set must make the same calls in the same order.";
}

}  // namespace

SequenceInspector::Key SequenceInspector::key_of(const Request& request) {
  // The caller's set, not the pair of ranks.
  const ProcessSetId set = is_message(request) ? set_of_message(request.name) : request.process_set;
  return {set, request.call_sequence};
}

std::uint64_t SequenceInspector::count_in_sequence(const Request& request, TimePoint now) {
  next_look_.set_by(now + kPatience);
  Count& count = counts_[key_of(request)];
  const std::string_view messages = is_message(request) ? callers_name(request.name) : "";
  if (messages.empty() || messages != count.messages) {
    ++count.calls;
    count.messages = messages;
  }
  return count.calls;
}

void SequenceInspector::look(TimePoint now) {
  struct Oldest {
    const Submitted* call;
    const TensorEntry* entry;
  };
  std::map<Key, Oldest> oldest;
  state_.tensors.for_each([&](const TensorEntry& entry) {
    if (entry.waiting.empty() || entry.in_ready_list) return;
    const Submitted& call = entry.waiting.front();
    if (call.number == 0) return;
    const auto [found, is_new] = oldest.try_emplace(key_of(*call.request), Oldest{&call, &entry});
    if (!is_new && call.number < found->second.call->number) found->second = {&call, &entry};
  });
  std::erase_if(asked_, [&](const auto& one) { return !oldest.contains(one.first); });
  std::erase_if(counts_, [&](const auto& one) { return state_.sets.ranks_of(one.first.first) == nullptr; });
  for (const auto& [key, one] : oldest) {
    Asked& asked = asked_[key];
    if (asked.number != one.call->number) asked = {one.call->number, one.call->since + kPatience};
    if (now >= asked.again) {
      asked.again = now + std::max<Duration>(kPatience, now - one.call->since);
      const wire::SequenceNoticeMessage notice{key.first, key.second, one.call->number};
      if (state_.is_root()) {
        inquire(notice, now);
      } else {
        outbox_.send(state_.parent(), notice);
      }
    }
    next_look_.set_by(asked.again);
  }
}

void SequenceInspector::inquire(const wire::SequenceNoticeMessage& notice, TimePoint now) {
  const auto is_known = [&](const Inquiry& other) {
    return other.asked.process_set == notice.process_set && other.asked.sequence == notice.sequence;
  };
  if (inquiries_.size() >= kMostAsked || std::ranges::any_of(inquiries_, is_known)) return;
  open({next_id_++, notice.process_set, notice.sequence, notice.number, false}, now);
}

void SequenceInspector::open(wire::SequenceInquiryMessage asked, TimePoint now) {
  const auto* ranks = state_.sets.ranks_of(asked.process_set);
  if (ranks == nullptr) return;
  inquiries_.push_back({asked, *ranks, now + kAnswersBy, {}});
  answers_due_.set_by(now + kAnswersBy);
  answer(asked, now);
}

void SequenceInspector::answer(const wire::SequenceInquiryMessage& message, TimePoint now) {
  if (state_.over) return;
  for (int reporter = 1; reporter < state_.collector.reporters(); ++reporter) {
    if (state_.collector.concerns(message.process_set, reporter))
      outbox_.send(state_.collector.rank_of(reporter), message);
  }
  if (!state_.takes_part_in(message.process_set)) return;
  const Key key(message.process_set, message.sequence);
  wire::SequenceAnswerMessage mine{.id = message.id, .rank = state_.options.rank};
  const auto count = counts_.find(key);
  mine.has_made = count != counts_.end() && count->second.calls >= message.number;
  state_.tensors.for_each([&](const TensorEntry& entry) {
    for (std::size_t i = 0; i < entry.waiting.size(); ++i) {
      const Submitted& waiting = entry.waiting[i];
      if (waiting.number != message.number || key_of(*waiting.request) != key) continue;
      mine.name = is_message(*waiting.request) ? callers_name(entry.name) : entry.name;
      mine.call = waiting.request->describe();
      mine.operations.push_back({entry.process_set, entry.name});
    }
  });
  if (!message.wants_places || mine.name.empty() || !state_.options.gives_stacks)
    return give(std::move(mine), now);
  if (without_place_.empty()) {
    place_by_.set(now + kPlaceBy);
    place_asked_ = outbox_.ask_for_stack();
  }
  without_place_.push_back(std::move(mine));
}

void SequenceInspector::give_place(std::uint64_t number, const std::string& place, TimePoint now) {
  if (number < place_asked_) return;
  place_by_.clear();
  const std::size_t begin = std::min(place.find_first_not_of(' '), place.size());
  const std::string first_line = place.substr(begin, place.find('\n', begin) - begin);
  for (wire::SequenceAnswerMessage& mine : std::exchange(without_place_, {})) {
    mine.place = first_line;
    give(std::move(mine), now);
  }
}

void SequenceInspector::give(wire::SequenceAnswerMessage answer, TimePoint now) {
  if (state_.is_root()) return take_answer(std::move(answer), now);
  outbox_.send(state_.parent(), answer);
}

void SequenceInspector::take_answer(wire::SequenceAnswerMessage answer, TimePoint now) {
  const auto inquiry =
      std::ranges::find_if(inquiries_, [&](const Inquiry& one) { return one.asked.id == answer.id; });
  if (inquiry == inquiries_.end()) return;
  inquiry->answers.insert_or_assign(answer.rank, std::move(answer));
  judge(now);
}

void SequenceInspector::judge(TimePoint now) {
  while (!state_.over) {  // to judge one may open another
    const auto done = std::ranges::find_if(inquiries_, [now](const Inquiry& one) {
      return one.answers.size() >= one.ranks.size() || now >= one.deadline;
    });
    if (done == inquiries_.end()) break;
    const Inquiry inquiry = std::move(*done);
    inquiries_.erase(done);
    judge(inquiry, now);
  }
  TimePoint next = kNever;
  for (const Inquiry& one : inquiries_) next = std::min(next, one.deadline);
  answers_due_.set(next);
}

void SequenceInspector::judge(const Inquiry& inquiry, TimePoint now) {
  if (inquiry.answers.size() < inquiry.ranks.size()) return;  // a rank is late, or stopped
  std::map<Rank, wire::SequenceAnswerMessage> waiting;
  std::set<std::string> names;
  std::set<std::pair<ProcessSetId, std::string>> operations;
  bool has_run = false, has_messages = false;
  for (const auto& [rank, answer] : inquiry.answers) {
    if (!answer.has_made) return;
    has_run |= answer.name.empty();
    if (answer.name.empty()) continue;
    waiting.emplace(rank, answer);
    names.insert(answer.name);
    for (const auto& [set, name] : answer.operations) {
      has_messages |= is_pair(set);
      operations.emplace(set, name);
    }
  }
  const auto may_run = [&](const auto& operation) {
    const TensorEntry* entry = state_.tensors.find(operation.first, operation.second);
    // In the ready list: all ranks have come.
    return (entry != nullptr && entry->in_ready_list) ||
           state_.sequencer->is_being_failed(operation.first, operation.second);
  };
  if (names.size() < 2 || (has_run && !has_messages) || std::ranges::any_of(operations, may_run)) return;
  if (!inquiry.asked.wants_places) {
    wire::SequenceInquiryMessage again = inquiry.asked;
    again.id = next_id_++;
    again.wants_places = true;
    return open(again, now);
  }
  const std::string text = mismatch_text(waiting, *state_.options.topology);
  for (const auto& [set, name] : operations)
    state_.sequencer->force_error(set, name, Code::mismatch, text, now);
}

}  // namespace dabke::negotiation

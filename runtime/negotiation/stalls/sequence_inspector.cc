#include "runtime/negotiation/stalls/sequence_inspector.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/negotiation/tables/name_key.h"

namespace dabke::negotiation {
namespace {

constexpr Duration kAnswersBy = std::chrono::seconds(2);
constexpr Duration kPlaceBy = std::chrono::milliseconds(400);
constexpr std::size_t kMostAsked = 16;  // at the same time

/// The waiting call of this number in the sequence, and its key; null if there is none.
std::pair<const TensorEntry*, const Submitted*> find_call(const NegotiationState& state, ProcessSetId set,
                                                          std::uint64_t sequence, std::uint64_t number) {
  std::pair<const TensorEntry*, const Submitted*> found{};
  state.tensors.for_each([&](const TensorEntry& entry) {
    if (entry.process_set != set) return;
    for (std::size_t i = 0; i < entry.waiting.size(); ++i) {
      const Submitted& waiting = entry.waiting[i];
      if (waiting.number == number && waiting.request->call_sequence == sequence) found = {&entry, &waiting};
    }
  });
  return found;
}

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

std::uint64_t SequenceInspector::count_in_sequence(const Request& request, TimePoint now) {
  next_look_.set_by(now + kPatience);
  return ++counts_[{request.process_set, request.call_sequence}];
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
    const auto [found, is_new] =
        oldest.try_emplace({entry.process_set, call.request->call_sequence}, Oldest{&call, &entry});
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
  wire::SequenceAnswerMessage mine{.id = message.id, .rank = state_.options.rank};
  const auto [entry, call] = find_call(state_, message.process_set, message.sequence, message.number);
  if (call != nullptr) {
    mine.name = entry->name;
    mine.call = call->request->describe();
  }
  if (!message.wants_places || call == nullptr || !state_.options.gives_stacks)
    return give(std::move(mine), now);
  if (without_place_.empty()) {
    place_by_.set(now + kPlaceBy);
    outbox_.add(StackAction());
  }
  without_place_.push_back(std::move(mine));
}

void SequenceInspector::give_place(const std::string& place, TimePoint now) {
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
  const ProcessSetId set = inquiry.asked.process_set;
  std::vector<std::string> names;
  for (const auto& [rank, answer] : inquiry.answers) names.push_back(answer.name);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const auto may_run = [&](const std::string& name) {
    const TensorEntry* entry = name.empty() ? nullptr : state_.tensors.find(set, name);
    // An empty name: the rank has not made the call, or it has run. In the ready list: all ranks have come.
    return name.empty() || (entry != nullptr && entry->in_ready_list) ||
           state_.sequencer->is_being_failed(set, name);
  };
  if (names.size() < 2 || std::ranges::any_of(names, may_run)) return;
  if (!inquiry.asked.wants_places) {
    wire::SequenceInquiryMessage again = inquiry.asked;
    again.id = next_id_++;
    again.wants_places = true;
    return open(again, now);
  }
  const std::string text = mismatch_text(inquiry.answers, *state_.options.topology);
  for (const std::string& name : names) state_.sequencer->force_error(set, name, Code::mismatch, text, now);
}

}  // namespace dabke::negotiation

#include "runtime/negotiation/sender_search.h"

#include "runtime/base/text/message_name.h"

namespace dabke::negotiation {

void SenderSearch::begin(const TensorEntry& entry) {
  const Key key{entry.process_set, entry.name};
  Search& search = searches_[key] = {};
  ask(key, search);
}

void SenderSearch::ask(const Key& key, Search& search) {
  search.id = ++last_id_;
  search.awaited.clear();
  const wire::SenderQuestionMessage question{search.id, state_.options.rank, key.first, key.second};
  if (state_.is_root()) return take_question(question);
  outbox_.send(state_.parent(), question);
}

void SenderSearch::take_question(const wire::SenderQuestionMessage& question) {
  if (state_.over) return;
  for (int reporter = 1; reporter < state_.collector.reporters(); ++reporter) {
    if (state_.collector.concerns(question.process_set, reporter))
      outbox_.send(state_.collector.rank_of(reporter), question);
  }
  std::erase_if(questions_, [&](const wire::SenderQuestionMessage& old) {
    const bool is_replaced = old.receiver == question.receiver && old.process_set == question.process_set &&
                             old.name == question.name;
    return is_replaced || state_.sets.ranks_of(old.process_set) == nullptr;
  });
  const bool is_own = question.receiver == state_.options.rank;
  if (is_own || !state_.takes_part_in(question.process_set)) return;
  if (!answer(question)) questions_.push_back(question);
}

/// Returns false if this rank has no such send.
bool SenderSearch::answer(const wire::SenderQuestionMessage& question) {
  const Rank own = state_.options.rank;
  const TensorEntry* const entry =
      state_.tensors.find(pair_of(own, question.receiver), with_sender(question.name, own));
  if (entry == nullptr || entry->waiting.empty()) return false;
  const wire::SenderAnswerMessage mine{question.id,          question.receiver, own,
                                       question.process_set, question.name,     state_.last_order};
  if (state_.is_root()) {
    outbox_.send(state_.collector.rank_of(state_.collector.reporter_of(mine.receiver)), mine);
  } else {
    outbox_.send(state_.parent(), mine);
  }
  return true;
}

void SenderSearch::answer_with(const TensorEntry& entry) {
  std::erase_if(questions_, [&](const wire::SenderQuestionMessage& question) {
    return entry.process_set == pair_of(state_.options.rank, question.receiver) &&
           entry.name == with_sender(question.name, state_.options.rank) && answer(question);
  });
}

void SenderSearch::note_message(const TensorEntry& entry) {
  const auto ranks = ranks_of_pair(entry.process_set);
  const Rank other = ranks[ranks[0] == state_.options.rank ? 1 : 0];
  for (auto& [key, search] : searches_) {
    if (with_sender(key.second, other) != entry.name) continue;
    search.ordered[entry.name] = state_.last_order;
    if (search.awaited == entry.name) ask(key, search);
  }
}

void SenderSearch::take_answer(const wire::SenderAnswerMessage& answer, TimePoint now) {
  if (answer.receiver != state_.options.rank) {
    const int reporter = state_.collector.reporter_of(answer.receiver);
    if (reporter > 0) outbox_.send(state_.collector.rank_of(reporter), answer);
    return;
  }
  const auto found = searches_.find({answer.process_set, answer.name});
  if (found == searches_.end() || found->second.id != answer.id) return;
  Search& search = found->second;
  TensorEntry* const entry = state_.tensors.find(answer.process_set, answer.name);
  if (entry == nullptr || entry->waiting.empty()) {  // it has failed
    searches_.erase(found);
    return;
  }
  const std::string name = with_sender(answer.name, answer.sender);
  const TensorEntry* const receive = state_.tensors.find(pair_of(answer.sender, answer.receiver), name);
  if (receive != nullptr && !receive->waiting.empty()) {
    search.awaited = name;
    return;
  }
  if (const auto ordered = search.ordered.find(name);
      ordered != search.ordered.end() && ordered->second > answer.seen)
    return ask(found->first, search);
  searches_.erase(found);
  become_receive(*entry, answer.sender, now);
}

void SenderSearch::become_receive(TensorEntry& entry, Rank sender, TimePoint now) {
  Submitted mine = entry.waiting.pop(now);
  auto receive = std::make_shared<Request>(*mine.request);
  receive->name = with_sender(receive->name, sender);
  for (TensorSpec& tensor : receive->tensors) tensor.name = receive->name;
  receive->root = sender;
  receive->process_set = pair_of(sender, state_.options.rank);
  if (entry.waiting.empty()) {
    state_.tensors.tidy(entry);
  } else {
    begin(entry);
  }
  enter_(mine.token, std::move(receive), now);
}

}  // namespace dabke::negotiation

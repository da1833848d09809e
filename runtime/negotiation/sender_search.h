// Finds a sender for a receive from any rank.
//
// Such a receive waits in this rank's table, under a name of its own ("x [any to 1, tag 7]"), and no other
// rank has that name. It becomes an ordinary receive once a sender is known:
//   1. The receiver sends a question up to the root, which passes it on to all ranks of the process set.
//   2. A rank that waits in a matching send answers, now or as soon as it has one. It answers only once.
//   3. The first answer decides. The receiver replaces its request by a receive from that rank, which is
//      negotiated like any other, and matches the oldest send of that rank.
// An answer is stale if the receiver has met that send already, by an ordinary receive which it had called
// before. The receiver can see that: it still waits in a receive from that rank, or has followed an order of
// one that the sender had not followed when it answered. It then asks again. Orders and questions come down
// on the same links, so the sender has followed that order when it gets the new question.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/negotiation/state/negotiation_state.h"
#include "runtime/negotiation/state/outbox.h"

namespace dabke::negotiation {

class SenderSearch {
 public:
  /// Enters a request in the negotiation.
  using Enter = std::function<void(Token token, RequestRef request, TimePoint now)>;

  SenderSearch(NegotiationState& state, Outbox& outbox, Enter enter)
      : state_(state), outbox_(outbox), enter_(std::move(enter)) {}

  /// The entry's first request, a receive from any rank, begins to wait here.
  void begin(const TensorEntry& entry);
  /// A request begins to wait here; it may be a send for which another rank has asked.
  void note_wait(const TensorEntry& entry) {
    if (!questions_.empty() && is_pair(entry.process_set)) answer_with(entry);
  }
  /// The oldest request of the name has been ordered.
  void note_order(const TensorEntry& entry) {
    if (!searches_.empty() && is_pair(entry.process_set)) note_message(entry);
  }
  /// Passes the question on, and answers it for this rank.
  void take_question(const wire::SenderQuestionMessage& question);
  /// Passes the answer on to the receiver, or acts on it.
  void take_answer(const wire::SenderAnswerMessage& answer, TimePoint now);

 private:
  using Key = std::pair<ProcessSetId, std::string>;
  struct Search {
    std::uint32_t id = 0;                          // of the last question
    std::map<std::string, std::uint64_t> ordered;  // messages to this rank since the search began
    std::string awaited;  // a message to this rank, after whose order to ask again; empty for none
  };

  void ask(const Key& key, Search& search);
  void answer_with(const TensorEntry& entry);
  void note_message(const TensorEntry& entry);
  bool answer(const wire::SenderQuestionMessage& question);
  void become_receive(TensorEntry& entry, Rank sender, TimePoint now);

  NegotiationState& state_;
  Outbox& outbox_;
  const Enter enter_;
  std::map<Key, Search> searches_;                      // of this rank
  std::vector<wire::SenderQuestionMessage> questions_;  // of other ranks, which this rank has not answered
  std::uint32_t last_id_ = 0;
};

}  // namespace dabke::negotiation

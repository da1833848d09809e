// Finds ranks that wait for each other in different calls, where a program promises that they make the same
// calls in the same order (Request::call_sequence).
//
// Each rank counts the calls of a sequence. Messages of one name that follow each other are one call. So the
// n-th call is the same on all ranks of the set, or the program is wrong:
//   1. A rank whose oldest call of a sequence has waited for kPatience notifies the root.
//   2. The root asks all ranks of the set for their calls of that number. If each of them has made one, and
//      those that wait are not all in the same, these can never run. Only messages can have run already.
//   3. The root asks once more, for the places of these calls in the program. Then it ends all of them with
//      an error that has the calls and the places.
// A rank that has not made the call yet has nothing to compare. Its own notice begins this again.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/negotiation/state/negotiation_state.h"
#include "runtime/negotiation/state/outbox.h"

namespace dabke::negotiation {

class SequenceInspector {
 public:
  /// The time that a call waits before it is examined, and then again each time that the wait has doubled.
  static constexpr Duration kPatience = std::chrono::milliseconds(300);

  SequenceInspector(NegotiationState& state, Outbox& outbox)
      : state_(state),
        outbox_(outbox),
        next_look_(state.deadlines, [this](TimePoint now) { look(now); }),
        answers_due_(state.deadlines, [this](TimePoint now) { judge(now); }),
        place_by_(state.deadlines, [this](TimePoint now) { give_place(place_asked_, "", now); }) {}

  /// Counts the call, and returns its number in its sequence; 0 if it is in none.
  std::uint64_t count(const Request& request, TimePoint now) {
    return request.call_sequence == 0 || is_from_any(request) ? 0 : count_in_sequence(request, now);
  }
  /// Root only: asks about the call in a notice.
  void inquire(const wire::SequenceNoticeMessage& notice, TimePoint now);
  /// Passes the question on, and answers it for this rank.
  void answer(const wire::SequenceInquiryMessage& message, TimePoint now);
  /// Root only.
  void take_answer(wire::SequenceAnswerMessage answer, TimePoint now);
  /// Sends the answers that wait for this rank's place in the program: for the StackAction of this number, or
  /// an earlier one.
  void give_place(std::uint64_t number, const std::string& place, TimePoint now);

 private:
  using Key = std::pair<ProcessSetId, std::uint64_t>;  // a sequence
  struct Count {
    std::uint64_t calls = 0;
    std::string messages;  // the name of the last call, if it consists of messages
  };
  struct Asked {
    std::uint64_t number = 0;  // of the call
    TimePoint again{};
  };
  struct Inquiry {
    wire::SequenceInquiryMessage asked;
    std::vector<Rank> ranks;
    TimePoint deadline{};
    std::map<Rank, wire::SequenceAnswerMessage> answers;
  };

  static Key key_of(const Request& request);
  std::uint64_t count_in_sequence(const Request& request, TimePoint now);
  void look(TimePoint now);
  void open(wire::SequenceInquiryMessage asked, TimePoint now);
  void give(wire::SequenceAnswerMessage answer, TimePoint now);
  void judge(TimePoint now);
  void judge(const Inquiry& inquiry, TimePoint now);

  NegotiationState& state_;
  Outbox& outbox_;
  Deadline next_look_;
  Deadline answers_due_;
  Deadline place_by_;
  std::map<Key, Count> counts_;
  std::map<Key, Asked> asked_;  // about the oldest waiting call of each sequence
  std::vector<wire::SequenceAnswerMessage> without_place_;
  std::uint64_t place_asked_ = 0;  // the number of the action for which they wait
  // On the root.
  std::vector<Inquiry> inquiries_;
  std::uint32_t next_id_ = 1;
};

}  // namespace dabke::negotiation

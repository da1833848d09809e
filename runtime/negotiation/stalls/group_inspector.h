// One rank's watch over groups whose members come one by one (incomplete_groups.h).
//
//   1. A rank on which a group stays incomplete notifies the root: after a second, then whenever the time has
//      doubled, and when a warning or the end is due.
//   2. The root asks the ranks of the set what they have of it.
//   3. Groups that can never become the same on all ranks fail with a mismatch. All others get a warning, or
//      end the job.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/negotiation/state/dump_requests.h"
#include "runtime/negotiation/state/endings.h"
#include "runtime/negotiation/tables/incomplete_groups.h"

namespace dabke::negotiation {

class GroupInspector {
 public:
  GroupInspector(NegotiationState& state, Outbox& outbox, Endings& endings, DumpRequests& dumps)
      : state_(state),
        outbox_(outbox),
        endings_(endings),
        dumps_(dumps),
        next_check_(state.deadlines, [this](TimePoint now) { look(now); }),
        answers_due_(state.deadlines, [this](TimePoint now) { judge(now); }) {}

  /// Returns an error if the group has failed, and the member with it.
  Status add(const RequestRef& member, const std::string& group, std::uint32_t group_size, TimePoint now);
  /// Root only: some rank waits for members.
  void inquire(const wire::GroupNoticeMessage& notice, TimePoint now);
  /// Passes the question on, and answers it for this rank.
  void answer(const wire::GroupInquiryMessage& message, TimePoint now);
  /// Root only.
  void take_answer(wire::GroupAnswerMessage answer);
  /// Called for an order of this name: some answers may be from before it, and some from after it.
  void note_order(const TensorEntry& entry) {
    if (!inquiries_.empty()) forget_inquiry(entry);
  }
  /// Decides the inquiries that all ranks have answered, or that have waited long enough.
  void judge(TimePoint now);

 private:
  /// Notifies the root of groups that are due.
  void look(TimePoint now);
  /// Called when some of the inquiries are gone.
  void note_deadline();
  TimePoint next_check(const IncompleteGroup& group, TimePoint now) const;
  void forget_inquiry(const TensorEntry& entry);
  int stage_of(Duration age) const;
  void judge(const GroupInquiry& inquiry, TimePoint now);

  NegotiationState& state_;
  Outbox& outbox_;
  Endings& endings_;
  DumpRequests& dumps_;
  Deadline next_check_;
  Deadline answers_due_;                 // of any inquiry
  std::vector<GroupInquiry> inquiries_;  // on the root
  std::uint32_t next_id_ = 1;
  struct History {
    TimePoint inquired{};
    TimePoint warned{};
    Duration age{};
  };
  std::map<IncompleteGroups::Key, History> history_;  // on the root
};

}  // namespace dabke::negotiation

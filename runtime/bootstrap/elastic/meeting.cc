#include "runtime/bootstrap/elastic/meeting.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "runtime/bootstrap/elastic/answer.h"

namespace dabke::bootstrap {
namespace {

Status nonsense(const std::string& key, const std::string& text) {
  return {Code::internal, fmt::format("dabkerun left '{}' in the store, under {}", text, key)};
}

Result<MeetingResult> place_in(store::Store& job, std::uint64_t epoch, WorkerId self, TimePoint deadline) {
  const std::string key = plan_key(epoch);
  DABKE_ASSIGN_OR_RETURN(const std::string text, job.get(key, deadline));
  auto plan = read_epoch_plan(text);
  if (!plan || plan->epoch != epoch) return nonsense(key, text);
  const auto me = std::ranges::find(plan->members, self, &EpochMember::worker);
  if (me == plan->members.end()) return nonsense(key, text);
  const int rank = static_cast<int>(me - plan->members.begin());
  return MeetingResult(EpochPlace{std::move(*plan), rank});
}

}  // namespace

Result<MeetingResult> come_to_meeting(store::Store& job, const Arrival& arrival, TimePoint deadline) {
  DABKE_RETURN_IF_ERROR(job.set(arrival_key(arrival.worker), to_text(arrival)));
  const std::string key = answer_key(arrival.worker, arrival.visit);
  DABKE_ASSIGN_OR_RETURN(const std::string text, job.get(key, deadline));
  const auto answer = read_answer(text);
  if (!answer) return nonsense(key, text);
  switch (answer->kind) {
    case Answer::Kind::joined: return place_in(job, answer->epoch, arrival.worker, deadline);
    case Answer::Kind::left: return MeetingResult(LeftInOrder{answer->why});
    case Answer::Kind::written_off: break;
  }
  return Status(Code::aborted, answer->why);
}

}  // namespace dabke::bootstrap

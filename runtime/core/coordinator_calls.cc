// The calls of the coordinator that any thread may make. A thread that waits for a result drives it
// meanwhile.
#include <algorithm>

#include "runtime/base/threads/exceptions.h"
#include "runtime/base/threads/floating_point.h"
#include "runtime/core/coordinator.h"
#include "runtime/negotiation/tables/name_key.h"

namespace dabke::core {
namespace {

// Waking takes as long as about fifty yields, and the awaited event usually comes within that time.
constexpr int kYieldsBeforeSleep = 50;
// Most looks without an event that a helper makes while the coordinator's thread waits for the baton.
constexpr int kMostLooksWithoutEvent = 1000;
// A thread that has left this many commands yields the core once. On one core the coordinator would otherwise
// read them a time slice later, when they are in no cache any more.
constexpr std::size_t kBacklog = 64;

bool is_early(TimePoint limit) { return limit == kNever || Clock::now() < limit; }

/// Returns the answer if it comes within `limit`; nothing if none comes.
template <class Answer>
std::optional<Answer> answer_within(std::future<Answer>& future, Duration limit) {
  if (future.wait_for(limit) != std::future_status::ready) return std::nullopt;
  try {
    return future.get();
  } catch (const std::future_error&) {
    return std::nullopt;  // the job has just ended
  }
}

}  // namespace

Status Coordinator::submit(OperationRef operation, Wake wake) {
  const std::size_t tensors = std::max<std::size_t>(1, operation->request->tensors.size());
  const RequestRef named = driver_.names_are_unique() ? operation->request : nullptr;
  if (named) DABKE_RETURN_IF_ERROR(driver_.take_name(*named));
  // Not completed with an error instead: no thread is left to run its callback.
  if (!post(std::move(operation), wake)) {
    if (named) driver_.give_name_back(*named);
    Status why = inbox_.closed_by();
    return why.is_ok() ? Status(Code::shut_down, "dabke_shutdown was called on this rank") : why;
  }
  driver_.note_call(tensors);
  return {};
}

diagnosis::Dump Coordinator::describe(std::string reason, Duration limit) {
  const auto answer = std::make_shared<std::promise<diagnosis::Dump>>();
  auto described = answer->get_future();
  if (post(Describe{reason, answer})) {
    if (auto dump = answer_within(described, limit)) return std::move(*dump);
  }
  return reporter_.begin(
      std::move(reason) + " (the coordinator thread does not answer: what it waits for is unknown)", 0);
}

std::optional<diagnosis::JobFigures> Coordinator::figures(Duration limit) {
  const auto answer = std::make_shared<std::promise<diagnosis::JobFigures>>();
  auto taken = answer->get_future();
  if (!post(TakeFigures{answer})) return std::nullopt;
  return answer_within(taken, limit);
}

bool Coordinator::post(Command command, Wake how) {
  std::size_t waiting = 0;
  if (!inbox_.put(std::move(command), waiting)) return false;
  if (how == Wake::at_once) wake();
  if (waiting % kBacklog == 0) std::this_thread::yield();
  return true;
}

void Coordinator::help(const Operation& operation, TimePoint deadline, WaitCheck* check,
                       Wake submitted) noexcept {
  bool is_woken = submitted == Wake::at_once;
  if (driver_.has_learned_batches() && !operation.is_done()) {
    // Only a hint: if there is no memory for it, the batch is held for its usual time.
    (void)attempt([&] {
      // The lane may be making the operation's extras at this moment. A group's member has its extras from
      // the start.
      const Request& request = *operation.request;
      post(WantedHint{request.process_set, request.is_group ? negotiation::group_key(operation.extras().group)
                                                            : std::string(negotiation::NameKey(request))},
           Wake::left_to_help);
      is_woken = false;
    });
  }
  if (can_be_helped_) {
    while (!operation.is_done() && is_early(deadline) && take_baton()) {
      is_woken = true;
      if (!drive_for(operation, deadline, check)) return;
      if (check != nullptr && check->stops()) return;
    }
  }
  if (!is_woken) wake();
}

bool Coordinator::take_baton() {
  bool is_ours = baton_.try_lock();
  if (!is_ours) {
    baton_.want();
    for (shm::Waiting wait(kYieldsBeforeSleep); !is_ours && wait.again();) is_ours = baton_.try_lock();
    baton_.want_no_more();
  }
  if (!is_ours || (!ended_ && !driver_.is_broken())) return is_ours;
  baton_.unlock();
  return false;
}

/// Drives until one of these:
///   - a batch is to be run here
///   - the operation is done, or in the lane
///   - nothing happens any more
///   - the time of the check or of the wait has come
/// Returns true if the help goes on.
bool Coordinator::drive_for(const Operation& operation, TimePoint deadline, WaitCheck* check) noexcept {
  const DefaultFloatingPoint floats;
  helped_ = deadline == kNever;
  const TimePoint until = check == nullptr ? deadline : std::min(deadline, check->due());
  bool is_time = false;
  try {
    channel_->look(driver_);  // the awaited message may have come before
    int looks = kMostLooksWithoutEvent;
    // Every event is followed by a round: the coordinator's thread does not receive it any more.
    do driver_.round();
    while (!own_run_ && operation.ordered_at == TimePoint{} && !operation.is_done() &&
           !(is_time = !is_early(until)) && something_comes(looks));
  } catch (...) {
    driver_.break_off(caught());
  }
  const std::unique_ptr<lanes::Run> run = std::move(own_run_);
  helped_ = false;
  // The coordinator's thread sleeps, or is about to, and has not seen what has happened since.
  sleep_.begin();
  sleep_.hand_back(!driver_.nothing_to_do(), driver_.next_deadline());
  baton_.unlock();
  if (!run) return is_time;
  run->batch.check = check;
  lanes().host().run_here(*run);
  return true;
}

bool Coordinator::something_comes(int& looks) {
  for (shm::Waiting wait(habit_, kYieldsBeforeSleep); wait.again();) {
    if (channel_->look(driver_) || inbox_.has_news()) return true;
    if (baton_.is_waited_for() && --looks < 0) return false;
  }
  return false;
}

/// Hands runs over in order. The batch that a helper runs itself is the first of its round.
void Coordinator::hand_over(std::unique_ptr<lanes::Run> run) {
  const bool is_for_host = run->batch.device_type == DeviceType::host;
  if (helped_ && !own_run_ && is_for_host && lanes().host().reserve_for(*run)) {
    own_run_ = std::move(run);
  } else {
    lanes().push(std::move(run));
  }
}

}  // namespace dabke::core

// The end of a job whose coordinator or lane could not do a step, for want of memory as a rule. The
// negotiation may be half changed and is not asked any more; what it has lost sight of is among the units.
#include <thread>

#include "runtime/base/exceptions.h"
#include "runtime/core/coordinator.h"

namespace dabke {

/// May be called from any thread. The coordinator's own thread then ends the job.
void Coordinator::break_off(Status cause) noexcept {
  {
    const std::lock_guard lock(failed_mutex_);
    if (broken_by_.is_ok()) broken_by_ = std::move(cause);
  }
  is_broken_ = true;
  wake();
}

/// By the coordinator's thread, which holds the baton. Every step is tried, and none needs the one before it.
///   1. The other ranks hear of the cause.
///   2. The lane ends; a helper gives back what it runs.
///   3. What is called from now on is refused.
///   4. Whatever has not completed completes, with the job's first cause if there was one.
void Coordinator::end_broken() noexcept {
  reserve_.reset();
  Status cause;
  {
    const std::lock_guard lock(failed_mutex_);
    cause = std::move(broken_by_);
  }
  if (cause.code() == Code::out_of_memory || !attempt([&] { tell_all(cause); }))
    (void)attempt([&] { send_to_all(last_words_); });
  (void)attempt([&] { cause = of_this_rank(cause); });
  if (over_ && !over_->is_ok()) cause = copy_of(*over_);
  (void)attempt([&] { log_.error("{}", cause.message()); });
  if (!attempt([&] { lane_.abort(cause); })) lane_.abort(out_of_memory());
  lane_.stop();
  while (lane_.outstanding() != 0) std::this_thread::yield();  // a helper that tells the ends of its batch
  {
    const std::lock_guard lock(inbox_mutex_);
    closed_ = true;
    closed_by_ = copy_of(cause);
  }
  {
    const std::lock_guard lock(failed_mutex_);
    for (Failed& one : failed_) (void)one.unit.release();
    failed_.clear();
  }
  units_.for_each([&](Unit& unit) { complete(std::unique_ptr<Unit>(&unit), cause); });
  groups_.give_all([&](OperationRef member) { complete(std::move(member), cause); });
  for (auto* const commands : {&commands_, &inbox_}) {
    for (Command& command : *commands) {
      auto* const operation = std::get_if<OperationRef>(&command);
      // The member of a group may be among its others already.
      if (operation != nullptr && operation->get() != nullptr && !(*operation)->is_done())
        complete(std::move(*operation), cause);
    }
    commands->clear();
  }
  over_ = std::move(cause);
  (void)attempt([&] { channel_->close(Clock::now() + kCloseTime); });
}

}  // namespace dabke

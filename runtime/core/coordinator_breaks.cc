// The end of a job whose coordinator or lane could not do a step, for want of memory as a rule. The
// negotiation may be half changed and is not asked any more; what it has lost sight of is in the table of calls.
#include <thread>

#include "runtime/base/threads/exceptions.h"
#include "runtime/core/coordinator.h"

namespace dabke {

/// May be called from any thread. The coordinator's own thread then ends the job.
void Coordinator::break_off(Status cause) noexcept {
  failures_.break_off(std::move(cause));
  wake();
}

/// By the coordinator's thread, which holds the baton. Every step is tried, and none needs the one before it.
///   1. The other ranks hear of the cause.
///   2. The lane ends; a helper gives back what it runs.
///   3. What is called from now on is refused.
///   4. Whatever has not completed completes, with the job's first cause if there was one.
void Coordinator::end_broken() noexcept {
  reserve_.reset();
  Status cause = failures_.take_break_cause();
  if (cause.code() == Code::out_of_memory || !attempt([&] { tell_all(cause); }))
    (void)attempt([&] { send_to_all(last_words_); });
  (void)attempt([&] { cause = of_this_rank(cause); });
  if (over_ && !over_->is_ok()) cause = copy_of(*over_);
  (void)attempt([&] { log_.error("{}", cause.message()); });
  if (!attempt([&] { lanes_.abort(cause); })) lanes_.abort(out_of_memory());
  lanes_.stop();
  while (lanes_.outstanding() != 0) std::this_thread::yield();  // a helper that tells the ends of its batch
  inbox_.close(cause);
  reports_.job_is_over(cause);
  failures_.forget_all();
  calls_.for_each([&](NegotiatedCall& call) { complete(std::unique_ptr<NegotiatedCall>(&call), cause); });
  groups_.give_all([&](OperationRef member) { complete(std::move(member), cause); });
  inbox_.give_all([&](OperationRef operation) {
    // The member of a group may be among its others already.
    if (!operation->is_done()) complete(std::move(operation), cause);
  });
  over_ = std::move(cause);
  (void)attempt([&] { channel_->close(Clock::now() + kCloseTime); });
}

}  // namespace dabke

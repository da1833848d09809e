#include "runtime/core/failure_arbiter.h"

#include <algorithm>

#include "runtime/base/threads/exceptions.h"

namespace dabke::core {
namespace {

constexpr Duration kCauseGrace = std::chrono::seconds(1);

/// True if the run has found out by itself what is wrong. Such a failure is judged at once, before the ranks
/// that this run leaves alone take this rank for the cause.
bool is_known(const FailedCall& one) {
  return one.status.code() == Code::peer_lost || one.status.code() == Code::timeout ||
         one.status.code() == Code::interrupted ||
         one.status.code() == Code::out_of_memory;  // this rank's own, so no other rank is the cause
}

}  // namespace

bool FailureArbiter::note(std::unique_ptr<NegotiatedCall> call, const Status& status) noexcept {
  const bool noted = attempt([&] {
    const std::lock_guard lock(mutex_);
    failed_.emplace_back();
    failed_.back() = {std::move(call), copy_of(status)};
    has_failures_ = true;
  });
  if (!noted) (void)call.release();
  return noted;
}

bool FailureArbiter::is_new() {
  const std::lock_guard lock(mutex_);
  return !failed_.empty() && since_ == kNever;
}

std::optional<FailureArbiter::Verdict> FailureArbiter::judge(TimePoint now, const Status* over) {
  const std::lock_guard lock(mutex_);
  if (failed_.empty()) return std::nullopt;
  if (since_ == kNever) since_ = now;
  Verdict verdict;
  if (over != nullptr && !over->is_ok()) {
    verdict.cause = *over;
  } else {
    const auto known = std::ranges::find_if(failed_, is_known);
    if (known == failed_.end() && now < since_ + kCauseGrace) return std::nullopt;
    verdict.is_new = true;
    verdict.first = known == failed_.end() ? 0 : static_cast<std::size_t>(known - failed_.begin());
    verdict.cause = failed_[verdict.first].status;
    if (verdict.cause.code() ==
        Code::interrupted)  // from the check of a wait; the job's other calls are aborted
      verdict.cause = {Code::aborted, verdict.cause.message()};
  }
  verdict.calls.swap(failed_);
  has_failures_ = false;
  since_ = kNever;
  return verdict;
}

TimePoint FailureArbiter::deadline() {
  const std::lock_guard lock(mutex_);
  return since_ == kNever ? kNever : since_ + kCauseGrace;
}

void FailureArbiter::forget_all() {
  const std::lock_guard lock(mutex_);
  for (FailedCall& one : failed_) (void)one.call.release();
  failed_.clear();
  has_failures_ = false;
}

void FailureArbiter::break_off(Status cause) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (broken_by_.is_ok()) broken_by_ = std::move(cause);
  }
  is_broken_ = true;
}

Status FailureArbiter::take_break_cause() {
  const std::lock_guard lock(mutex_);
  return std::move(broken_by_);
}

}  // namespace dabke::core

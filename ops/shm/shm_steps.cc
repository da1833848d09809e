#include "ops/shm/shm_steps.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace dabke {
namespace {

// To be woken takes as long as some hundred yields where the core has gone to sleep meanwhile.
constexpr int kYields = 100;
constexpr int kStepBits = 24;
constexpr auto kNap = std::chrono::milliseconds(1);

// Not the private forms: other processes sleep on the same word.
void wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value, TimePoint deadline) {
  timespec left{};
  if (deadline != kNever) {
    const auto time = std::max<Duration>(deadline - Clock::now(), Duration::zero());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
    left = {static_cast<time_t>(seconds.count()),
            static_cast<long>(std::chrono::nanoseconds(time - seconds).count())};
  }
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, value,
            deadline == kNever ? nullptr : &left, nullptr, 0);
}

}  // namespace

void ShmSteps::begin(std::uint64_t order, const std::shared_ptr<const std::vector<std::size_t>>& members,
                     TimePoint deadline) {
  if (members_ != members) members_ = members;
  deadline_ = deadline;
  if (order == order_) return;
  order_ = order;
  rounds_ = 0;
  reached_ = order << kStepBits;
}

void ShmSteps::publish() {
  ShmProgress& own = domain_.progress(domain_.own());
  // Both sequentially consistent: either we see the sleeper, or the sleeper sees the step.
  own.reached.store(++reached_, std::memory_order_seq_cst);
  if (own.sleepers.load(std::memory_order_seq_cst) != 0) wake_sleepers(own);
}

// Not sequentially consistent: a sleeper may be missed, whose naps are short for that (free_stage).
void ShmSteps::publish_last() {
  ShmProgress& own = domain_.progress(domain_.own());
  own.reached.store(++reached_, std::memory_order_release);
  if (own.sleepers.load(std::memory_order_relaxed) != 0) wake_sleepers(own);
}

void ShmSteps::wake_sleepers(ShmProgress& own) {
  own.bell.fetch_add(1, std::memory_order_seq_cst);
  wake_all(own.bell);
}

Status ShmSteps::wait_for_all() {
  for (const std::size_t index : *members_) DABKE_CHECK(wait_for(index, reached_));
  return {};
}

Result<std::byte*> ShmSteps::free_stage() {
  stage_ = (order_ + rounds_) % ShmDomain::kStages;
  if (Readers& readers = readers_[stage_]; readers.members) {
    for (const std::size_t index : *readers.members) DABKE_CHECK(wait_for(index, readers.until, kNap));
  }
  return domain_.stage(domain_.own(), stage_);
}

void ShmSteps::end_round() {
  Readers& readers = readers_[stage_];
  if (readers.members != members_) readers.members = members_;
  readers.until = reached_ + 1;
  ++rounds_;
}

Status ShmSteps::wait_for(std::size_t index, std::uint64_t value, Duration longest_sleep) {
  if (index == domain_.own()) return {};
  ShmProgress& peer = domain_.progress(index);
  for (Waiting wait(habit_, kYields); wait.again();) {
    if (peer.reached.load(std::memory_order_acquire) >= value) return {};
  }
  return sleep_until(peer, value, longest_sleep);
}

Status ShmSteps::sleep_until(ShmProgress& peer, std::uint64_t value, Duration longest_sleep) {
  sleeps_on_.store(&peer, std::memory_order_seq_cst);
  peer.sleepers.fetch_add(1, std::memory_order_seq_cst);
  Status status;
  for (;;) {
    const std::uint32_t bell = peer.bell.load(std::memory_order_seq_cst);
    if (peer.reached.load(std::memory_order_seq_cst) >= value) break;
    if (is_aborted_.load(std::memory_order_seq_cst)) {
      status = aborted();
      break;
    }
    if (deadline_ != kNever && Clock::now() >= deadline_) {
      status = {Code::timeout, "not done within its limit; a rank is late, stopped or gone"};
      break;
    }
    const TimePoint nap = longest_sleep == Duration::max() ? kNever : Clock::now() + longest_sleep;
    sleep_while(peer.bell, bell, std::min(deadline_, nap));
  }
  peer.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  sleeps_on_.store(nullptr, std::memory_order_seq_cst);
  return status;
}

void ShmSteps::abort(const Status& cause) {
  {
    const std::lock_guard lock(cause_mutex_);
    if (cause_.is_ok()) cause_ = cause;
  }
  is_aborted_.store(true, std::memory_order_seq_cst);
  ShmProgress* const peer = sleeps_on_.load(std::memory_order_seq_cst);
  if (peer == nullptr) return;  // whoever is about to sleep asks is_aborted_ after it has said so
  peer->bell.fetch_add(1, std::memory_order_seq_cst);
  wake_all(peer->bell);
}

Status ShmSteps::aborted() const {
  const std::lock_guard lock(cause_mutex_);
  return cause_;
}

}  // namespace dabke

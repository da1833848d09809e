// How the ranks of a collective keep step in shared memory.
//
// Each rank publishes how far it is as one number: (order << 24) | step. Orders come in one sequence, equal
// on all ranks, so the number of a rank only grows, whatever process sets its collectives are of, and no set
// needs memory of its own: who waits for step s of order o waits for a number at least that large.
//
// A rank has two stages and fills them in turn. Before it writes to one again it waits until all who read it
// have gone on
// (`free_stage`); as a rule they have long since.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "ops/shm/shm_domain.h"
#include "runtime/transport/shm/waiting.h"

namespace dabke {

class ShmSteps {
 public:
  explicit ShmSteps(ShmDomain& domain) : domain_(domain) {}

  /// A collective of these ranks (indices in the domain, in set order) begins. Collectives of one order
  /// follow one another in its steps.
  void begin(std::uint64_t order, const std::shared_ptr<const std::vector<std::size_t>>& members,
             TimePoint deadline);

  /// The next step of this rank is reached: what it has written before may be read.
  void publish();
  /// The same for a collective's last step, behind which nothing of others is read: as a rule nobody waits
  /// for it, and it does not wait for the core to have told the others.
  void publish_last();
  /// Until all members have reached this rank's step.
  Status wait_for_all();

  /// The stage of this round, which nobody reads any more.
  Result<std::byte*> free_stage();
  /// Of a member, by its place in the set.
  const std::byte* stage_of(std::size_t place) const { return domain_.stage((*members_)[place], stage_); }
  /// The round's last reading comes before the step that is published next.
  void end_round();

  /// From any thread: whoever waits here, now or later, ends with that cause.
  void abort(const Status& cause);
  Status aborted() const;
  /// The same, for loops: costs nothing.
  bool is_aborted() const { return is_aborted_.load(std::memory_order_relaxed); }

 private:
  struct Readers {
    std::shared_ptr<const std::vector<std::size_t>> members;
    std::uint64_t until = 0;  // what they have published once they have read
  };

  Status wait_for(std::size_t index, std::uint64_t value, Duration longest_sleep = Duration::max());
  Status sleep_until(ShmProgress& peer, std::uint64_t value, Duration longest_sleep);
  static void wake_sleepers(ShmProgress& own);

  ShmDomain& domain_;
  std::shared_ptr<const std::vector<std::size_t>> members_;
  std::uint64_t reached_ = 0;
  std::uint64_t order_ = 0;
  std::uint64_t rounds_ = 0;  // of this order
  std::size_t stage_ = 0;
  std::array<Readers, ShmDomain::kStages> readers_;
  TimePoint deadline_ = kNever;
  WaitingHabit habit_;

  std::atomic<bool> is_aborted_{false};
  std::atomic<ShmProgress*> sleeps_on_{nullptr};
  mutable std::mutex cause_mutex_;
  Status cause_;
};

}  // namespace dabke

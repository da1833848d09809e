// How the ranks of a collective keep step in shared memory.
//
// Each rank publishes how far it is as one number: (order << 24) | step. Orders come in one sequence, equal
// on all ranks, so the number of a rank only grows, whatever process sets its collectives are of, and no set
// needs memory of its own: who waits for step s of order o waits for a number at least that large.
//
// A rank has two stages and fills them in turn. Before it writes to one again it waits until all who read it
// have gone on (`free_stage`); as a rule they have long since.
//
// To fetch a cache line that another core has written takes about as long as all else of a small collective
// together. Up to 216 bytes therefore go with a stage's message instead: the lines that are looked at for the
// step hold the data as well. These lines, and those of a stage that little is written to, are got ready to
// be written while nobody waits for them.
//
// Each rank says what it brings to a batch (BatchMark): in its message, and else beside its number, in the
// same line. Where two ranks disagree at least one of them finds out, because it still waits for the other,
// or sees that the other has gone past; it says so instead of reading what lies in the other's stage.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "ops/shm/shm_domain.h"
#include "runtime/base/threads/abort_latch.h"
#include "runtime/links/shm/waiting.h"

namespace dabke::ops {

class ShmSteps {
 public:
  explicit ShmSteps(ShmDomain& domain);

  /// A collective of these ranks (indices in the domain, in set order) begins. Collectives of one order
  /// follow one another in its steps. `check` is asked in the sleep; a stop is an error.
  void begin(const BatchMark& mark, const std::shared_ptr<const std::vector<std::size_t>>& members,
             TimePoint deadline, WaitCheck* check = nullptr);

  /// The next step of this rank is reached: what it has written before may be read. It does not wait for the
  /// core to have told the others.
  void publish();
  /// Waits until all members have reached this rank's step.
  Status wait_for_all();

  /// The stage of this round, which nobody reads any more. `most_bytes`: no rank writes more, which all know.
  Result<std::byte*> free_stage(std::size_t most_bytes);
  /// Publishes what this rank has written there, and waits until all have.
  Status exchange();
  /// The stage of a member, by its place in the set.
  const std::byte* stage_of(std::size_t set_rank) { return stage((*members_)[set_rank]); }
  /// The round's last reading comes before the step that is published next.
  void end_round();

  /// May be called from any thread: whoever waits here, now or later, ends with that cause.
  void abort(const Status& cause);
  const Status& aborted() const { return latch_.aborted(); }
  bool is_aborted() const { return latch_.is_aborted(); }

 private:
  struct Readers {
    std::shared_ptr<const std::vector<std::size_t>> members;
    std::uint64_t until = 0;  // what they have published once they have read
  };

  std::byte* stage(std::size_t index);
  template <class Wait>
  Status for_each_member(Wait wait);
  void write_mark();
  Status check_marks();
  Status check_mark(std::size_t index) const;
  Status check_letters(std::size_t index);
  Status differs(std::size_t index, std::uint64_t step, std::uint64_t contents) const;
  std::byte* inline_message_of(std::size_t index);
  Status wait_for(std::size_t index, std::uint64_t value);
  Status receive_letter(std::size_t index);
  template <class IsThere>
  Status wait_until(std::size_t index, IsThere is_there);
  template <class IsThere>
  Status sleep_until(std::size_t index, IsThere is_there);
  void send_letter();
  void prepare_next_stage();
  void wake_sleepers();

  ShmDomain& domain_;
  std::shared_ptr<const std::vector<std::size_t>> members_;
  std::uint64_t reached_ = 0;
  std::uint64_t order_ = 0;
  std::uint64_t rounds_ = 0;  // in this order
  BatchMark mark_;
  std::uint64_t first_ = 0;  // step of this batch
  bool has_written_mark_ = false;
  bool has_checked_ = false;  // that all brought the same
  std::size_t stage_ = 0;
  std::size_t most_bytes_ = 0;    // the most that a rank writes in this round
  std::size_t inline_bytes_ = 0;  // this round's, with the mark; 0: it goes by the stage
  /// What lies in each rank's message, without the steps; first the mark's contents.
  std::vector<std::byte> inline_messages_;
  std::array<Readers, kShmStages> readers_;
  std::vector<std::uint64_t> seen_;  // by rank: how far it was when last looked at
  TimePoint deadline_ = kNever;
  WaitCheck* check_ = nullptr;
  std::vector<shm::WaitingHabit> habits_;  // by rank: one on this very core never comes while we look

  AbortLatch latch_;
  std::atomic<ShmProgress*> sleeps_on_{nullptr};
};

}  // namespace dabke::ops

// Synchronises the ranks of a collective in shared memory.
//
// Each rank publishes its progress as one number: (order << 24) | step. Orders come in one sequence, equal on
// all ranks. So the number of a rank only grows, whatever the process sets of its collectives, and no set
// needs memory of its own. A rank that waits for step s of order o waits for a number at least that large.
//
// A rank has two stages and fills them in turn. Before it writes to a stage again, it waits until all its
// readers have gone on (`free_stage`); usually they have done so long before.
//
// Fetching a cache line that another core has written takes about as long as all the rest of a small
// collective. So up to 216 bytes travel inline: the lines that are read for the step hold the data as well.
// These lines, and those of a stage with little data, are fetched for writing while no rank waits for them.
//
// Each rank publishes the mark of its batch (BatchMark): in its inline message, or beside its number in the
// same line. If two ranks disagree, at least one of them finds out: it still waits for the other, or sees
// that the other has gone past. It reports that instead of reading the data in the other's stage.
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

  /// Begins a collective of these ranks (indices in the domain, in set order). Collectives of one order
  /// follow one another in its steps. `check` is called during sleep; if it stops the job, the wait ends with
  /// an error.
  void begin(const BatchMark& mark, const std::shared_ptr<const std::vector<std::size_t>>& members,
             TimePoint deadline, WaitCheck* check = nullptr);

  /// Publishes the next step of this rank: the others may read what it has written before. It does not wait
  /// until the other cores have seen the store.
  void publish();
  /// Waits until all members have reached this rank's step.
  Status wait_for_all();

  /// Returns the stage of this round, which no rank reads any more. No rank writes more than `most_bytes`,
  /// which is equal on all ranks.
  Result<std::byte*> free_stage(std::size_t most_bytes);
  /// Publishes what this rank has written to its stage, and waits until all members have done so.
  Status exchange();
  /// Returns the stage of a member, by its set rank.
  const std::byte* stage_of(std::size_t set_rank) { return stage((*members_)[set_rank]); }
  /// Ends the round: this rank has read all it needs before the step that it publishes next.
  void end_round();
  /// True if all members say yes. A round of its own.
  Result<bool> all_agree(bool yes);

  /// May be called from any thread: every wait here, current or later, ends with that cause.
  void abort(const Status& cause);
  const Status& aborted() const { return latch_.aborted(); }
  bool is_aborted() const { return latch_.is_aborted(); }

 private:
  struct Readers {
    std::shared_ptr<const std::vector<std::size_t>> members;
    std::uint64_t until = 0;  // the step that they publish after reading
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
  bool has_checked_ = false;  // that all brought the same batch
  std::size_t stage_ = 0;
  std::size_t most_bytes_ = 0;    // the most that a rank writes in this round
  std::size_t inline_bytes_ = 0;  // of this round, with the mark; 0: it uses the stage
  /// The contents of each rank's message, without the steps; first the mark's contents.
  std::vector<std::byte> inline_messages_;
  std::array<Readers, kShmStages> readers_;
  std::vector<std::uint64_t> seen_;  // by rank: its step when last read
  TimePoint deadline_ = kNever;
  WaitCheck* check_ = nullptr;
  std::vector<shm::WaitingHabit> habits_;  // by rank: a rank on this core makes no progress while we spin

  AbortLatch latch_;
  std::atomic<ShmProgress*> sleeps_on_{nullptr};
};

}  // namespace dabke::ops

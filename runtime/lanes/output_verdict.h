// Whether every rank has room for the outputs of an allgather or alltoall, agreed on before data moves.
//
// These sizes are known only once the row counts have been exchanged, and then a rank may have no room for them:
// its allocator refuses, there is too little memory, or the output that it was given has another first dimension.
// If it alone gave up, the others would wait in the middle of a collective.
//   1. With its row counts each rank says whether any output is given, or an allocator of the user's is asked.
//   2. Where one is, or the outputs are large, the ranks tell each other which outputs they could not get.
//      All come to the same decision whether to, because it follows from what was exchanged. Small outputs of
//      our own, the usual case, cost no message.
//   3. What lacks room on some rank is left out by all, and fails on all with one text. The rest of the batch
//      runs.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/call/request.h"

namespace dabke::lanes {

/// The size from which memory of our own is not taken for certain; in bytes of all ranks' outputs together.
inline constexpr double kUncertainBytes = 16 << 20;

class OutputVerdict {
 public:
  enum class Lacks : std::int64_t { nothing, refused, memory, fit, place };

  /// The size of an output whose bytes no 63 bits can count.
  static constexpr std::size_t kMoreThanThereCanBe = std::numeric_limits<std::int64_t>::max();

  explicit OutputVerdict(std::size_t entries) : mine_(kNumbers * entries) {}

  /// There is no memory: `what` is refused or memory.
  void note_lack(std::size_t entry, Lacks what, std::size_t size_bytes);
  /// The output that was given has other rows than come.
  void note_misfit(std::size_t entry, std::int64_t given_rows, std::int64_t needed_rows);
  /// The input lies in the output that was given, but not where this rank's part of it is. In bytes from its beginning.
  void note_misplaced(std::size_t entry, std::int64_t input_at, std::int64_t part_at);
  /// What tells the others, before `of` runs; valid as long as this.
  const Batch& batch(const Batch& of);
  /// What becomes of an entry. Asked once that has run; `kind` and `tensor` are for the text.
  Status of(std::size_t entry, CollectiveKind kind, const TensorSpec& tensor,
            const ProcessSetInfo& set) const;

 private:
  /// Of each entry: what it lacks, then its size in bytes, or the rows given and those needed, or places.
  static constexpr std::size_t kNumbers = 3;

  std::vector<std::int64_t> mine_;
  std::vector<std::int64_t> all_;  // by rank
  std::vector<std::int64_t> counts_;
  Batch batch_;
};

}  // namespace dabke::lanes

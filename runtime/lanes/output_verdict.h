// The agreement, before data moves, whether every rank has room for the outputs of an allgather or alltoall.
//
// The sizes of these outputs are known only once the row counts have been exchanged. A rank may then have no
// room for an output: its allocator refuses, there is too little memory, or the given output has another
// first dimension. If that rank alone gave up, the others would wait in the middle of a collective.
//   1. With its row counts, each rank reports whether any output is given, or a user's allocator is called.
//   2. If so, or if the outputs are large, the ranks exchange which outputs they could not get. All ranks
//      come to the same decision, because it follows from the first exchange. Small outputs of our own, the
//      usual case, cost no message.
//   3. All ranks leave out a tensor that lacks room on some rank, and it fails on all with one text. The rest
//      of the batch runs.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/call/request.h"

namespace dabke::lanes {

/// The size from which our own memory is uncertain, in bytes of all ranks' outputs together.
inline constexpr double kUncertainBytes = 16 << 20;

class OutputVerdict {
 public:
  enum class Lacks : std::int64_t { nothing, refused, memory, fit, place };

  /// The size of an output whose bytes 63 bits cannot count.
  static constexpr std::size_t kMoreThanThereCanBe = std::numeric_limits<std::int64_t>::max();

  explicit OutputVerdict(std::size_t entries) : mine_(kNumbers * entries) {}

  /// Notes that there is no memory. `what` is refused or memory.
  void note_lack(std::size_t entry, Lacks what, std::size_t size_bytes);
  /// Notes that the given output has another number of rows than the result.
  void note_misfit(std::size_t entry, std::int64_t given_rows, std::int64_t needed_rows);
  /// Notes that the input lies in the given output, but not where this rank's part is. Both are in bytes from
  /// the output's beginning.
  void note_misplaced(std::size_t entry, std::int64_t input_at, std::int64_t part_at);
  /// Returns the batch that informs the other ranks, before `of` runs. Valid as long as this object.
  const Batch& batch(const Batch& of);
  /// Returns the status of an entry, once that batch has run. `kind` and `tensor` are for the text.
  Status of(std::size_t entry, CollectiveKind kind, const TensorSpec& tensor,
            const ProcessSetInfo& set) const;

 private:
  /// Numbers of each entry: what it lacks, and then its size in bytes, or the given and the needed rows, or
  /// the two places.
  static constexpr std::size_t kNumbers = 3;

  std::vector<std::int64_t> mine_;
  std::vector<std::int64_t> all_;  // by rank
  std::vector<std::int64_t> counts_;
  Batch batch_;
};

}  // namespace dabke::lanes

// Whether every rank has memory for the outputs of an allgather or alltoall, agreed on before data moves.
//
// These sizes are known only once the row counts have been exchanged, and then a rank may have no memory for
// them: its allocator refuses, or there is too little. If it alone gave up, the others would wait in the
// middle of a collective.
//   1. With its row counts each rank says whether an allocator of the user's is asked for any output.
//   2. Where one is, or the outputs are large, the ranks tell each other which outputs they could not get.
//      All come to the same decision whether to, because it follows from what was exchanged. Small outputs of
//      our own, the usual case, cost no message.
//   3. What lacks memory on some rank is left out by all, and fails on all with one text. The rest of the
//      batch runs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/backend/backend.h"

namespace dabke {

/// The size from which memory of our own is not taken for certain; in bytes of all ranks' outputs together.
inline constexpr double kUncertainBytes = 16 << 20;

class OutputVerdict {
 public:
  enum class Lacks : std::int64_t { nothing, refused, memory };

  explicit OutputVerdict(std::size_t entries) : mine_(2 * entries) {}

  void note(std::size_t entry, Lacks what, std::size_t size_bytes);
  /// What tells the others; valid as long as this.
  const Batch& batch(std::uint64_t order, const ProcessSetInfo& set);
  /// What becomes of an entry. Asked once that has run; `what` is the collective and `tensor` its name, for
  /// the text.
  Status of(std::size_t entry, std::string_view what, std::string_view tensor,
            const ProcessSetInfo& set) const;

 private:
  std::vector<std::int64_t> mine_;  // what each entry lacks, and its size
  std::vector<std::int64_t> all_;   // by rank
  std::vector<std::int64_t> counts_;
  Batch batch_;
};

}  // namespace dabke

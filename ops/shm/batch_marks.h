// The marks of a rank's last two batches, in shared memory. Only that rank writes them, while others read.
//
// There are two marks, so that a late rank still finds the mark of a rank that has gone on.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace dabke::ops {

class BatchMarks {
 public:
  struct Brought {
    std::uint64_t step = 0;  // the batch's first step; only ever grows
    std::uint64_t contents = 0;

    bool operator==(const Brought&) const = default;
  };

  void write(const Brought& batch);
  /// Returns the batch that the rank has brought instead of `own`. Returns nothing if the rank has brought
  /// `own`. Also returns nothing if this is uncertain: the rank has not reached `own`, or has gone on by more
  /// than two batches. In the latter case it has checked this rank's mark.
  std::optional<Brought> instead_of(const Brought& own) const;

 private:
  struct Mark {
    std::atomic<std::uint64_t> step{0};  // 0: none; kChanging: read again later
    std::atomic<std::uint64_t> contents{0};
  };
  static constexpr std::uint64_t kChanging = ~std::uint64_t{0};

  static std::optional<Brought> read(const Mark& mark);

  std::array<Mark, 2> marks_;
};

}  // namespace dabke::ops

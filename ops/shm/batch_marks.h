// What a rank has brought to its last two batches, in shared memory: written by that rank alone, while others read.
//
// Two, so that whoever is late still finds what a rank brought that has gone on.
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
    std::uint64_t step = 0;  // the batch's first; only ever grows
    std::uint64_t contents = 0;

    bool operator==(const Brought&) const = default;
  };

  void write(const Brought& batch);
  /// What the rank has brought instead of `own`; none where it has brought that, or where this is not certain: it has
  /// not come so far, or has gone on by more than two batches, and so found that of this rank right.
  std::optional<Brought> instead_of(const Brought& own) const;

 private:
  struct Mark {
    std::atomic<std::uint64_t> step{0};  // 0: none; kChanging: look again later
    std::atomic<std::uint64_t> contents{0};
  };
  static constexpr std::uint64_t kChanging = ~std::uint64_t{0};

  static std::optional<Brought> read(const Mark& mark);

  std::array<Mark, 2> marks_;
};

}  // namespace dabke::ops

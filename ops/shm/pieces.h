// Pieces of memory that stand for one long row of elements: the tensors of a fused batch, or what one rank
// gets of each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace dabke {

/// `Byte` is std::byte or const std::byte.
template <class Byte>
class Pieces {
 public:
  explicit Pieces(std::size_t element_bytes) : element_bytes_(element_bytes) {}

  void add(Byte* data, std::size_t elements) {
    if (elements == 0) return;
    data_.push_back(data);
    ends_.push_back(elements_ += elements);
  }
  std::size_t elements() const { return elements_; }

  /// Calls `use(data, elements, at)` for each stretch of [begin, begin + count) that is contiguous; `at`
  /// counts elements from `begin` on.
  template <class Use>
  void each(std::size_t begin, std::size_t count, Use use) const {
    std::size_t at = 0;
    auto piece = static_cast<std::size_t>(std::ranges::upper_bound(ends_, begin) - ends_.begin());
    while (at < count) {
      const std::size_t start = piece == 0 ? 0 : ends_[piece - 1];
      const std::size_t inside = begin + at - start;
      const std::size_t length = std::min(count - at, ends_[piece] - start - inside);
      use(data_[piece] + inside * element_bytes_, length, at);
      at += length;
      ++piece;
    }
  }

 private:
  std::size_t element_bytes_;
  std::size_t elements_ = 0;
  std::vector<Byte*> data_;
  std::vector<std::size_t> ends_;  // where each piece ends in the row
};

using InPieces = Pieces<const std::byte>;
using OutPieces = Pieces<std::byte>;

}  // namespace dabke

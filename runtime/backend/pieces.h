// Pieces of memory that together form one long row of elements: the tensors of a fused batch, or one rank's
// part of each.
#pragma once

#include <algorithm>
#include <cstddef>

#include "runtime/base/one_or_many.h"

namespace dabke {

/// `Byte` is std::byte or const std::byte.
template <class Byte>
class Pieces {
 public:
  explicit Pieces(std::size_t element_bytes) : element_bytes_(element_bytes) {}

  void add(Byte* data, std::size_t elements) {
    if (elements == 0) return;
    pieces_.push_back({data, elements_ += elements});
  }
  std::size_t elements() const { return elements_; }

  /// Calls `use(data, elements, at)` for each contiguous stretch of [begin, begin + count). `at` counts
  /// elements from `begin` on.
  template <class Use>
  void each(std::size_t begin, std::size_t count, Use use) const {
    std::size_t at = 0;
    const Piece* piece = std::ranges::upper_bound(pieces_, begin, {}, &Piece::end);
    while (at < count) {
      const std::size_t start = piece == pieces_.begin() ? 0 : piece[-1].end;
      const std::size_t inside = begin + at - start;
      const std::size_t length = std::min(count - at, piece->end - start - inside);
      use(piece->data + inside * element_bytes_, length, at);
      at += length;
      ++piece;
    }
  }

 private:
  struct Piece {
    Byte* data = nullptr;
    std::size_t end = 0;  // index in the row
  };
  std::size_t element_bytes_;
  std::size_t elements_ = 0;
  OneOrMany<Piece> pieces_;
};

using InPieces = Pieces<const std::byte>;
using OutPieces = Pieces<std::byte>;

}  // namespace dabke

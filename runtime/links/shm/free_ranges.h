// The free ranges of a row of bytes.
#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace dabke::shm {

/// Adjacent free ranges are merged. A call usually takes time logarithmic in their number.
class FreeRanges {
 public:
  /// Takes `bytes` from the smallest range that holds them, at a multiple of `alignment`. Returns their
  /// begin.
  std::optional<std::size_t> take(std::size_t bytes, std::size_t alignment) {
    for (auto fit = by_size_.lower_bound({bytes, 0}); fit != by_size_.end(); ++fit) {
      const auto [size, begin] = *fit;
      const std::size_t start = (begin + alignment - 1) / alignment * alignment;
      if (start + bytes > begin + size) continue;
      remove(by_place_.find(begin));
      if (start > begin) add(begin, start - begin);
      if (start + bytes < begin + size) add(start + bytes, begin + size - start - bytes);
      return start;
    }
    return std::nullopt;
  }

  /// None of these bytes may be free already.
  void give(std::size_t begin, std::size_t bytes) {
    if (bytes == 0) return;
    const auto after = by_place_.lower_bound(begin);
    if (after != by_place_.begin()) {
      if (const auto before = std::prev(after); before->first + before->second == begin) {
        begin = before->first;
        bytes += before->second;
        remove(before);
      }
    }
    if (after != by_place_.end() && after->first == begin + bytes) {
      bytes += after->second;
      remove(after);
    }
    add(begin, bytes);
  }

 private:
  using ByPlace = std::map<std::size_t, std::size_t>;  // begin, bytes

  void add(std::size_t begin, std::size_t bytes) {
    by_place_.emplace(begin, bytes);
    by_size_.emplace(bytes, begin);
  }
  void remove(ByPlace::iterator range) {
    by_size_.erase({range->second, range->first});
    by_place_.erase(range);
  }

  ByPlace by_place_;
  std::set<std::pair<std::size_t, std::size_t>> by_size_;  // bytes, begin
};

}  // namespace dabke::shm

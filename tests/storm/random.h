// Random numbers that are the same on every machine: a program must follow from its seed alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace storm {

/// The finalizer of splitmix64: every bit of the result depends on every bit of the argument.
constexpr std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// Makes one number out of several, such as a seed, a call and a rank.
template <class... More>
constexpr std::uint64_t hash(std::uint64_t first, More... more) {
  std::uint64_t result = mixed(first);
  ((result = mixed(result ^ static_cast<std::uint64_t>(more))), ...);
  return result;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() { return mixed(state_++); }
  /// A number from 0 to `end` - 1.
  int below(int end) { return static_cast<int>(next() % static_cast<std::uint64_t>(end)); }
  int between(int first, int last) { return first + below(last - first + 1); }
  bool chance(int percent) { return below(100) < percent; }
  template <class List>
  auto& pick(List& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(std::size(list))))];
  }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return *(list.begin() + below(static_cast<int>(list.size())));
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[static_cast<std::size_t>(below(static_cast<int>(i)))]);
  }
  /// Some of the bits of `mask`: at least one, but not all. 0 if there are fewer than two.
  unsigned proper_part(unsigned mask) {
    if ((mask & (mask - 1)) == 0) return 0;
    for (;;) {
      const unsigned part = mask & static_cast<unsigned>(next());
      if (part != 0 && part != mask) return part;
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace storm

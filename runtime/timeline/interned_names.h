// The names that records refer to by number. Each name is stored once, and numbers are given from 1 on. A
// program may create new names without end, and nobody reads so many, so all names beyond a table's limit
// share one number.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace dabke::timeline {

/// Any thread may use it.
class InternedNames {
 public:
  /// All names beyond the first `most` are stored as `further`.
  InternedNames(std::size_t most, std::string_view further) : most_(most), further_(further) {}

  /// Returns the number of `name`, and gives a new name the next number. `last` is the number that the caller
  /// got last, or 0. Most callers ask for the same names in the same order, so most calls need no search.
  std::uint32_t number_of(std::string_view name, std::uint32_t& last) {
    {
      const std::shared_lock lock(mutex_);
      if (const std::uint32_t number = guess(name, last); number != 0) return last = number;
      if (const auto found = numbers_.find(name); found != numbers_.end()) return last = found->second;
    }
    const std::unique_lock lock(mutex_);
    return last = add(name);
  }

  std::size_t count() const {
    const std::shared_lock lock(mutex_);
    return names_.size();
  }
  /// The number of characters of all names together.
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  /// The view is valid as long as this object. `number` must come from number_of().
  std::string_view name(std::uint32_t number) const {
    const std::shared_lock lock(mutex_);
    return names_[number - 1];
  }

 private:
  /// Usually the name is the last one again, or the one after that. Returns 0 if it is neither.
  std::uint32_t guess(std::string_view name, std::uint32_t last) const {
    for (std::uint32_t number = std::max(last, 1U); number <= last + 1 && number <= names_.size(); ++number) {
      if (names_[number - 1] == name) return number;
    }
    return 0;
  }

  std::uint32_t add(std::string_view name) {
    if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
    if (names_.size() == most_) keep(further_);
    if (names_.size() > most_) return static_cast<std::uint32_t>(names_.size());
    keep(name);
    const auto number = static_cast<std::uint32_t>(names_.size());
    numbers_.emplace(names_.back(), number);
    return number;
  }

  void keep(std::string_view name) {
    names_.emplace_back(name);
    bytes_.store(bytes() + name.size(), std::memory_order_relaxed);
  }

  const std::size_t most_;
  const std::string further_;
  std::atomic<std::uint64_t> bytes_{0};
  mutable std::shared_mutex mutex_;
  std::deque<std::string> names_;  // a deque never moves its elements, and the views below point to them
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

}  // namespace dabke::timeline

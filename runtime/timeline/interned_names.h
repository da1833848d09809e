// Names that records mention by number: each name once, numbered 1, 2, ... in the order they came. A program may have
// new names for ever, and nobody looks through so many, so all beyond a table's most share one.
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

/// May be used from any thread.
class InternedNames {
 public:
  /// All beyond the first `most` names are called `further`.
  InternedNames(std::size_t most, std::string_view further) : most_(most), further_(further) {}

  /// The number of `name`, a new one if it is new. `last`: what the caller got last, or 0; most ask for the same
  /// names in the same order again, and are answered without a search.
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
  /// Of the characters of all names.
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  /// Lives as long as this object. `number` is one that number_of() gave.
  std::string_view name(std::uint32_t number) const {
    const std::shared_lock lock(mutex_);
    return names_[number - 1];
  }

 private:
  /// It is the last one again as a rule, or the one after it; else 0.
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
  std::deque<std::string> names_;  // a deque, because the views below point into it
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

}  // namespace dabke::timeline

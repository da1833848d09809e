// The names of the timeline's rows: each name once, numbered 1, 2, ... in the order they came. A program may
// have new names for ever, and nobody looks through so many rows, so all beyond kMostNames share one.
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

namespace dabke {

/// May be used from any thread.
class TensorNames {
 public:
  static constexpr std::size_t kMostNames = std::size_t{1} << 18;
  static constexpr std::string_view kFurther = "(all further tensors)";

  /// The number of `name`, a new one if it is new.
  std::uint32_t number_of(std::string_view name) {
    {
      const std::shared_lock lock(mutex_);
      if (const std::uint32_t number = guess(name); number != 0) return number;
      if (const auto found = numbers_.find(name); found != numbers_.end()) return guess_ = found->second;
    }
    const std::unique_lock lock(mutex_);
    if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
    if (names_.size() == kMostNames) names_.emplace_back(kFurther);
    if (names_.size() > kMostNames) return static_cast<std::uint32_t>(names_.size());
    names_.emplace_back(name);
    const auto number = static_cast<std::uint32_t>(names_.size());
    numbers_.emplace(names_.back(), number);
    return number;
  }

  std::size_t count() const {
    const std::shared_lock lock(mutex_);
    return names_.size();
  }
  /// Lives as long as this object. `number` is one that number_of() gave.
  std::string_view name(std::uint32_t number) const {
    const std::shared_lock lock(mutex_);
    return names_[number - 1];
  }

 private:
  /// A guess: it is the last one's number again as a rule, or the one after it; else 0.
  std::uint32_t guess(std::string_view name) {
    const std::uint32_t last = guess_;
    for (std::uint32_t number = std::max(last, 1u); number <= last + 1 && number <= names_.size(); ++number) {
      if (names_[number - 1] == name) return guess_ = number;
    }
    return 0;
  }

  mutable std::shared_mutex mutex_;
  std::deque<std::string> names_;  // a deque, because the views below point into it
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
  std::atomic<std::uint32_t> guess_{0};  // the last number that was asked for
};

}  // namespace dabke

// The names of the timeline's rows: each name once, numbered 1, 2, ... in the order they came.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace dabke {

/// From any thread.
class TensorNames {
 public:
  /// The number of `name`, a new one if it is new.
  std::uint32_t number_of(std::string_view name) {
    {
      const std::shared_lock lock(mutex_);
      if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
    }
    const std::unique_lock lock(mutex_);
    if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
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
  mutable std::shared_mutex mutex_;
  std::deque<std::string> names_;  // a deque, because the views below point into it
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

}  // namespace dabke

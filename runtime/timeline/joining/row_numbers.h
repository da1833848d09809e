// The numbers of the rows of a rank's tensors or threads in a merged trace. Each file numbers its names from
// 1 on, and in an elastic job a rank has a file in each epoch. A name keeps its row in all of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace dabke::timeline {

class RowNumbers {
 public:
  /// `most` is the highest number. All names beyond it share that.
  explicit RowNumbers(std::size_t most) : most_(static_cast<std::uint32_t>(most)) {}

  /// Returns the number of the name that has the number `own` in the file. It is `own` if no other name has
  /// it, so a rank with one file keeps all numbers.
  std::uint32_t number_of(std::size_t file, std::uint32_t own, std::string_view name) {
    const auto [known, is_new] = known_.try_emplace({file, own}, own);
    if (!is_new) return known->second;
    const auto [named, is_new_name] = by_name_.try_emplace(std::string(name), own);
    if (is_new_name && !taken_.insert(own).second) named->second = free_number();
    highest_ = std::max(highest_, named->second);
    return known->second = named->second;
  }

 private:
  std::uint32_t free_number() {
    const std::uint32_t number = std::min(highest_ + 1, most_);
    taken_.insert(number);
    return number;
  }

  const std::uint32_t most_;
  std::uint32_t highest_ = 0;
  std::map<std::pair<std::size_t, std::uint32_t>, std::uint32_t> known_;  // by file and number in the file
  std::map<std::string, std::uint32_t, std::less<>> by_name_;
  std::set<std::uint32_t> taken_;
};

}  // namespace dabke::timeline

#include "runtime/base/text/spelling.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace dabke {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows of the table of distances between prefixes of both: the last two finished rows, and the current one.
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, row[j - 1] + 1, last[j] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row.back();
}

std::string closest_name(std::string_view name, std::span<const std::string> names, std::size_t most) {
  std::string closest;
  std::size_t least = most + 1;
  for (const std::string& each : names) {
    const std::size_t changes = edit_distance(name, each);
    if (changes >= least) continue;
    least = changes;
    closest = each;
  }
  return closest;
}

}  // namespace dabke

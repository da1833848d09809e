#include "launcher/output/last_lines.h"

#include <algorithm>

namespace dabke::launcher {

void LastLines::push(std::string_view line, std::size_t at) {
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  at_[pushed_ % kCount] = at;
  std::string& place = lines_[pushed_++ % kCount];
  place.assign(line.substr(0, kLongest));
  if (line.size() > kLongest) place += " ...";
}

std::vector<std::string> LastLines::all() const {
  std::vector<std::string> out;
  for (std::size_t i = pushed_ - std::min(pushed_, kCount); i < pushed_; ++i)
    out.push_back(lines_[i % kCount]);
  return out;
}

}  // namespace dabke::launcher

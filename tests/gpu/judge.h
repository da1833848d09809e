// A worker's report about its checks.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace dabke::test {

/// Prints the faults, or the number of checks. Returns the exit code.
inline int judge(std::string_view what, std::size_t count, const std::vector<std::string>& wrong) {
  for (const std::string& text : wrong) std::fprintf(stderr, "%s\n", text.c_str());
  if (wrong.empty()) std::printf("%zu %.*s passed\n", count, static_cast<int>(what.size()), what.data());
  return wrong.empty() ? 0 : 1;
}

}  // namespace dabke::test

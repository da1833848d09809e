// Numbers of things, as messages write them.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace dabke {

/// "1 slot", "2 slots", "1 process", "0 processes".
std::string counted(std::integral auto number, std::string_view noun) {
  const std::string_view ending = number == 1 ? "" : noun.ends_with('s') ? "es" : "s";
  return fmt::format("{} {}{}", number, noun, ending);
}

}  // namespace dabke

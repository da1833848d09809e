// Which known name a misspelt one may have been meant to be. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace dabke {

/// How many changes of one character, or of two neighbours for each other, turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The first of the nearest `names` that `most` changes at most turn `name` into; empty where none is.
std::string closest_name(std::string_view name, std::span<const std::string> names, std::size_t most);

}  // namespace dabke

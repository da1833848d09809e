// The known name that a misspelt one may have been meant to be. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace dabke {

/// The number of edits that turn `a` into `b`. An edit changes one character or swaps two neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The first of the nearest `names` that at most `most` edits turn `name` into; empty if there is none.
std::string closest_name(std::string_view name, std::span<const std::string> names, std::size_t most);

}  // namespace dabke

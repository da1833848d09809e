#include "runtime/timeline/json_text.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace dabke::timeline {

std::string json_string(std::string_view text) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::ranges::all_of(text, is_plain))
    return '"' + std::string(text) + '"';  // nearly all texts are plain
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace dabke::timeline

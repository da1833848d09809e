#include "runtime/timeline/json_text.h"

#include <nlohmann/json.hpp>

namespace dabke {

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace dabke

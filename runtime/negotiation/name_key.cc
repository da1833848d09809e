#include "runtime/negotiation/name_key.h"

#include <fmt/format.h>

namespace dabke {
namespace {

constexpr std::string_view kGroup{"\0group", 6};
constexpr std::string_view kCall{"\0call", 5};

}  // namespace

std::string group_key(const std::string& group) { return group + std::string(kGroup); }

bool is_group_key(std::string_view key) { return key.ends_with(kGroup); }

std::string shown(std::string_view key) {
  const std::string_view text = key.substr(0, key.find('\0'));
  if (is_group_key(key)) return fmt::format("group '{}'", text);
  return text.size() == key.size() ? fmt::format("'{}'", text) : std::string(text);
}

NameKey::NameKey(const Request& request) : name_(&request.name) {
  if (request.is_group) {
    made_ = group_key(request.name);
  } else if (!moves_data(request.kind)) {
    // One key whatever the request is called: the n-th barrier of a rank is the n-th of all.
    made_ = std::string(name_of(request.kind)) + std::string(kCall);
  }
}

}  // namespace dabke

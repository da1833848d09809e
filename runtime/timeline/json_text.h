// Texts as JSON.
#pragma once

#include <string>
#include <string_view>

namespace dabke::timeline {

/// The text as a JSON string with its quotes; what is not UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);

}  // namespace dabke::timeline

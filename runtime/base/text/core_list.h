// Lists of processor cores as users write them.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace dabke {

/// Parses a list such as "0,2,4"; an empty text gives an empty list. Code invalid_argument names `source` and
/// the word that is not a core number (0 to 1023).
Result<std::vector<unsigned>> parse_core_list(std::string_view text, std::string_view source);

/// Binds the calling thread to one core; code transport if this machine refuses.
Status pin_this_thread(unsigned core);

}  // namespace dabke

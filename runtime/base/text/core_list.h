// Lists of processor cores as users write them.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace dabke {

/// "0,2,4". Code invalid_argument names `source` and what is no core number (0 to 1023); nothing for an empty
/// text.
Result<std::vector<unsigned>> parse_core_list(std::string_view text, std::string_view source);

/// Binds the calling thread to one core; code transport when this machine does not let it.
Status pin_this_thread(unsigned core);

}  // namespace dabke

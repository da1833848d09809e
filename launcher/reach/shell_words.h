// The words of one line, as a POSIX shell splits it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace dabke::launcher {

/// Quotes and backslashes keep blanks together; nothing is expanded. The error says which quote is not closed.
Result<std::vector<std::string>> split_shell_words(std::string_view line);

}  // namespace dabke::launcher

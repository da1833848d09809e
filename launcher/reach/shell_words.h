// Splits one line into words like a POSIX shell. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace dabke::launcher {

/// Quotes and backslashes keep blanks together; nothing is expanded. The error names the quote that is not
/// closed.
Result<std::vector<std::string>> split_shell_words(std::string_view line);

}  // namespace dabke::launcher

// Numbers of bytes as a user writes and reads them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace dabke::perf {

/// Parses "8", "64K", "1.5M", "256MiB", "2G", with powers of 1024, as nccl-tests does. Errors name `option`.
Result<std::int64_t> parse_size(std::string_view text, std::string_view option);

/// 262144 becomes "256 KiB". A size that is not a whole number of a unit stays in bytes.
std::string size_text(std::int64_t bytes);

/// begin, begin * factor, ... up to and including `end`.
std::vector<std::int64_t> sizes_between(std::int64_t begin, std::int64_t end, std::int64_t factor);

}  // namespace dabke::perf

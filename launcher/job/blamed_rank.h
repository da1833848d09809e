// Whom a rank blames for the end of the job, read from its last words. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace dabke {

/// The rank that a line of stderr blames, in which the library of rank `speaker` says why the job has failed
/// (runtime/base/log.cc): "[<time> dabke rank 0 error] ... rank 1 on <host> ...". Nothing: another line, or
/// nobody is blamed.
std::optional<int> blamed_rank(std::string_view line, int speaker);

}  // namespace dabke

// What this build of Dabke is and has.
#pragma once

#include <string>

namespace dabke {

/// "dabkerun 0.1.0"
std::string version_text();
/// What --check-build prints.
std::string build_report();

}  // namespace dabke

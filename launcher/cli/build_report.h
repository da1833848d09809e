// What this build of Dabke is and has.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dabke::launcher {

/// "dabkerun 0.1.0"
std::string version_text();
/// What --check-build prints.
std::string build_report();
/// Where the modules of the dabkerun at `own` may be, the likeliest first: in the build, beside an installation, which may have been
/// moved, in a Python package, and where this build is to be installed.
std::vector<std::filesystem::path> module_folders(const std::filesystem::path& own);

}  // namespace dabke::launcher

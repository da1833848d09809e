// Reports on this build of Dabke.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dabke::launcher {

/// "dabkerun 0.1.0"
std::string version_text();
/// Returns the output of --check-build.
std::string build_report();
/// Returns the folders that may have the modules of the dabkerun at `own`, the most likely first. They are in
/// the build, beside an installation, which may have been moved, in a Python package, and at this build's
/// install location.
std::vector<std::filesystem::path> module_folders(const std::filesystem::path& own);

}  // namespace dabke::launcher

// The interpreter in a script's first line.
#pragma once

#include <string>

namespace dabke::launcher {

/// Returns why the kernel, or env, would not find the interpreter of the script at `path`, with the remedy:
/// "its first line names ...". Empty if it would be found, or if the file is not a script. env searches the
/// directories of `path_variable`.
std::string interpreter_trouble(const std::string& path, const std::string& path_variable);

}  // namespace dabke::launcher

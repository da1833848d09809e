// The interpreter that a script's first line names.
#pragma once

#include <string>

namespace dabke::launcher {

/// Why the kernel, or env, would not find the interpreter of the script at `path`, and what to do: "its first line names ...".
/// Empty where it would, and for what is not a script. env searches the directories of `path_variable`.
std::string interpreter_trouble(const std::string& path, const std::string& path_variable);

}  // namespace dabke::launcher

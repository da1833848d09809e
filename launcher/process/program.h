// Finding the program that a command names.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace dabke::launcher {

/// Where programs are when PATH says nothing.
inline constexpr const char* kStandardPath = "/usr/local/bin:/usr/bin:/bin";

struct ProgramSearch {
  std::string path;     // the file to run; empty when there is none
  int exit_code = 0;    // as a shell's: 127 not found, 126 not executable
  std::string message;  // one line, why there is none
};

/// Searches as a shell does: a name with '/' is a path, another one is looked up in the directories of
/// `path_variable`. A script whose interpreter is missing counts as not found.
ProgramSearch find_program(const std::string& name, const std::string& path_variable);

}  // namespace dabke::launcher

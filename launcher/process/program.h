// Finds the program that a command names.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace dabke::launcher {

/// The directories of programs if PATH is empty.
inline constexpr const char* kStandardPath = "/usr/local/bin:/usr/bin:/bin";

struct ProgramSearch {
  std::string path;     // the file to run; empty if there is none
  int exit_code = 0;    // as a shell's: 127 not found, 126 not executable
  std::string message;  // one line: why there is none
};

/// Searches like a shell: a name with '/' is a path; another name is searched in the directories of
/// `path_variable`. A script whose interpreter is missing counts as not found.
ProgramSearch find_program(const std::string& name, const std::string& path_variable);

}  // namespace dabke::launcher

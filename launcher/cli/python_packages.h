// Finds the packages of a python without importing them: an import takes seconds, and may fail.
#pragma once

#include <string>

#include "runtime/base/settings/config.h"

namespace dabke::launcher {

struct PythonPackages {
  std::string python;                    // path of the python; empty: there is none
  std::string dabke, dabke_path, torch;  // versions and a path; empty: no such package
  std::string trouble;                   // why the rest is unknown
};

/// The variable in which the Python package's own dabkerun names the python that runs it.
inline constexpr const char* kPythonThatRuns = "DABKE_PYTHON";

/// Returns the packages of the python that runs dabkerun, else of the one in PATH. Takes seconds at most.
PythonPackages find_python_packages(const Environment& environment);

}  // namespace dabke::launcher

// Which packages a python has, without importing them: that takes seconds, and may fail.
#pragma once

#include <string>

#include "runtime/base/settings/config.h"

namespace dabke::launcher {

struct PythonPackages {
  std::string python;                    // its path; empty: there is none
  std::string dabke, dabke_path, torch;  // versions and a path; empty: no such package
  std::string trouble;                   // why the rest is not known
};

/// The variable by which the Python package's own dabkerun names the python that runs it.
inline constexpr const char* kPythonThatRuns = "DABKE_PYTHON";

/// Of the python that runs dabkerun, else of the one in PATH. Takes seconds at most.
PythonPackages find_python_packages(const Environment& environment);

}  // namespace dabke::launcher

// Which packages the python in PATH has, without importing them: that takes seconds, and may fail.
#pragma once

#include <string>

#include "runtime/base/config.h"

namespace dabke {

struct PythonPackages {
  std::string python;                    // its path; empty: there is none in PATH
  std::string dabke, dabke_path, torch;  // versions and a path; empty: no such package
  std::string trouble;                   // why the rest is not known
};

/// Takes seconds at most.
PythonPackages find_python_packages(const Environment& environment);

}  // namespace dabke

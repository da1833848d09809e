// Finds and loads the vendor module that fits this process.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"
#include "runtime/modules/module.h"

namespace dabke::modules {

/// The MPI of this process, as far as it can be found out without loading one.
struct MpiTraces {
  std::string_view loaded;      // the module for the MPI library in this process; empty: none
  std::string_view launcher;    // the module for the MPI launcher of this process; empty: none
  std::string variable;         // the environment variable that identifies the launcher
  bool is_initialised = false;  // MPI_Init has been called and MPI_Finalize has not
};
MpiTraces find_mpi(const Environment& environment);

/// The session of the MPI in `traces`, or of the first module that loads if there is none.
///   errors  not_built, naming the Debian package; mismatch, naming both build ids
Result<MpiSession*> load_mpi(const Config& config, const MpiTraces& traces);

/// Loads `name` ("mpi-mpich") from config.module_path, or from the folder dabke/ beside the library that
/// contains this code.
Result<const ModuleTable*> load_module(const Config& config, std::string_view name);

}  // namespace dabke::modules

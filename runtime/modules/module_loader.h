// Finds and loads the vendor module that fits this process.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"
#include "runtime/modules/module.h"

namespace dabke::modules {

/// The MPI that this process belongs to, as far as can be told without loading any.
struct MpiTraces {
  std::string_view
      loaded;  // the module that fits the MPI library that is in the process; empty: there is none
  std::string_view launcher;    // the module that fits the launcher; empty: no launcher of MPI has started it
  std::string variable;         // the environment variable that shows the launcher
  bool is_initialised = false;  // MPI_Init has been called and MPI_Finalize has not
};
MpiTraces find_mpi(const Environment& environment);

/// The session of the MPI that the traces show, or of the first module that loads.
///   errors  not_built, naming the Debian package; mismatch, naming both build ids
Result<MpiSession*> load_mpi(const Config& config, const MpiTraces& traces);

/// Loads `name` ("mpi-mpich") from config.module_path, or from the folder dabke/ beside the library that this
/// code is in.
Result<const ModuleTable*> load_module(const Config& config, std::string_view name);

}  // namespace dabke::modules

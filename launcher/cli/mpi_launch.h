// --launcher mpi: mpirun of MPICH (Hydra) or of Open MPI takes the job over. The ranks then meet through MPI,
// and dabkerun is not a part of the job.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/cli/flags/options.h"
#include "launcher/cli/job_hosts.h"
#include "launcher/hosts/placement.h"
#include "runtime/base/status.h"

namespace dabke::launcher {

enum class MpiKind { hydra, open_mpi };

/// Recognises mpirun by the output of `mpirun --version`. For any other program the error gives a remedy.
Result<MpiKind> mpi_kind_of(std::string_view version_text);

struct MpiCommand {
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string>> variables;  // for mpirun itself and for the ranks
};

/// Returns mpirun's command line for these ranks. Refuses flags that mpirun cannot honour, by name. The line
/// contains no values of variables. `environment` has NAME=value of this process. Pure.
Result<MpiCommand> mpi_command(MpiKind kind, const std::string& program, const Options& options,
                               const std::vector<RankPlacement>& placements,
                               const std::vector<std::string>& environment);

/// Finds mpirun or mpiexec in PATH, and detects its kind.
Result<MpiCommand> find_mpi_command(const Options& options, const std::vector<RankPlacement>& placements);

/// Becomes mpirun. If mpirun cannot be run, returns dabkerun's exit code.
int become_mpirun(const MpiCommand& command);

}  // namespace dabke::launcher

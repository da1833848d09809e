// --launcher mpi: the job is handed over to mpirun, of MPICH (Hydra) or of Open MPI. The ranks meet through MPI then, and
// dabkerun is no part of the job.
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

/// From what `mpirun --version` prints. An error for neither, with what to do.
Result<MpiKind> mpi_kind_of(std::string_view version_text);

struct MpiCommand {
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string>> variables;  // for mpirun itself and for the ranks
};

/// mpirun's command line for these ranks. What mpirun cannot do is refused with the flag's name. No value of a variable is
/// in it: `environment` has NAME=value of this process. Pure.
Result<MpiCommand> mpi_command(MpiKind kind, const std::string& program, const Options& options,
                               const std::vector<RankPlacement>& placements,
                               const std::vector<std::string>& environment);

/// The mpirun or mpiexec in PATH, asked which it is.
Result<MpiCommand> find_mpi_command(const Options& options, const std::vector<RankPlacement>& placements);

/// Becomes mpirun. Returns only where that cannot be run: what dabkerun returns.
int become_mpirun(const MpiCommand& command);

}  // namespace dabke::launcher

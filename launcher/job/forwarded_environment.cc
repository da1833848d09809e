#include "launcher/job/forwarded_environment.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace dabke::launcher {
namespace {

constexpr std::array<std::string_view, 5> kKeptNames{"DISPLAY", "HOSTNAME", "OLDPWD", "WAYLAND_DISPLAY",
                                                     "_HOROVOD_SECRET_KEY"};
constexpr std::array<std::string_view, 18> kKeptPrefixes{
    "PMI2_",       "SSH_",         "XDG_",          "DBUS_",        "BASH_FUNC_",  "PMI_",
    "PMIX_",       "OMPI_COMM_",   "OMPI_MCA_orte", "MPI_LOCAL",    "SLURM_STEP",  "SLURM_TASK",
    "SLURM_SRUN_", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURM_LAUNCH_"};

}  // namespace

std::vector<std::string> forwarded_environment(std::vector<std::string> environment) {
  std::erase_if(environment, [](const std::string& variable) {
    const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
    return std::ranges::find(kKeptNames, name) != kKeptNames.end() ||
           std::ranges::any_of(kKeptPrefixes,
                               [&](std::string_view prefix) { return name.starts_with(prefix); });
  });
  return environment;
}

}  // namespace dabke::launcher

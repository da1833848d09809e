#include "runtime/bootstrap/other_launchers.h"

#include <array>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

namespace dabke::bootstrap {
namespace {

/// One row per launcher, the innermost first. torchrun may run inside mpirun or srun. mpirun starts its
/// helpers by srun, so the ranks then see the variables of srun, too.
struct Row {
  std::string_view name;
  std::array<std::string_view, 2> sizes;  // the first that is set counts; none: only a rank is given
  std::string_view rank;
  std::string_view also;    // must be set as well; empty: none
  std::string_view remedy;  // the launcher's own, before the others
};
constexpr std::string_view kByMpi = "Call MPI_Init before dabke_init, if this build supports that MPI. ";
constexpr std::string_view kByPmi2 = "Use srun --mpi=pmi2, if libpmi2-0 is installed. ";
constexpr std::array kRows = {
    Row{"torchrun (or whoever set WORLD_SIZE)",
        {"WORLD_SIZE"},
        "RANK",
        "",
        "With PyTorch, call dabke.torch.init(), which uses the rendezvous of torch.distributed. "},
    Row{"Open MPI", {"OMPI_COMM_WORLD_SIZE"}, "OMPI_COMM_WORLD_RANK", "", kByMpi},
    Row{"MPICH or another PMI launcher", {"PMI_SIZE"}, "PMI_RANK", "", kByMpi},
    Row{"MVAPICH", {"MV2_COMM_WORLD_SIZE"}, "MV2_COMM_WORLD_RANK", "", kByMpi},
    Row{"Slurm", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, "SLURM_PROCID", "SLURM_STEP_ID", kByPmi2},
    Row{"a PMIx launcher", {}, "PMIX_RANK", "", kByPmi2},
};

/// The step numbers from here on belong to Slurm's batch scripts and interactive shells, which srun has not
/// started.
constexpr std::int64_t kMostSteps = 0xffff0000;

std::optional<std::int64_t> number(const Environment& environment, std::string_view name) {
  const auto text = environment(std::string(name));
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const char* const last = text->data() + text->size();
  const auto [end, error] = std::from_chars(text->data(), last, value);
  if (error != std::errc() || end != last || value < 0 || value > 0xffffffff) return std::nullopt;
  return value;
}

std::optional<OtherLauncher> traces_of(const Row& row, const Environment& environment) {
  const auto rank = number(environment, row.rank);
  if (!rank || *rank >= kMostProcesses) return std::nullopt;
  if (!row.also.empty()) {
    const auto also = number(environment, row.also);
    if (!also || *also >= kMostSteps) return std::nullopt;
  }
  OtherLauncher found{std::string(row.name),
                      fmt::format("{} is {}", row.rank, *rank),
                      static_cast<int>(*rank),
                      static_cast<int>(*rank) + 1,
                      false,
                      std::string(row.remedy)};
  if (row.sizes[0].empty()) return found;
  for (const std::string_view name : row.sizes) {
    const auto size = name.empty() ? std::nullopt : number(environment, name);
    if (!size || *size <= *rank || *size > kMostProcesses) continue;
    found.evidence = fmt::format("{} is {} and {}", name, *size, found.evidence);
    found.size = static_cast<int>(*size);
    found.size_is_known = true;
    return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<OtherLauncher> find_other_launcher(const Environment& environment) {
  for (const Row& row : kRows) {
    if (auto found = traces_of(row, environment)) return found;
  }
  return std::nullopt;
}

Status cannot_meet(const OtherLauncher& launcher) {
  return {Code::invalid_argument,
          fmt::format("{} has started this process as one of {}{} ({}), but the ranks have no place to meet. "
                      "{}Or start with dabkerun, or with an mpirun that this build supports, or set "
                      "DABKE_RENDEZVOUS=file:/a/directory/that/all/ranks/see on every rank, a new directory "
                      "for every job. To run this process alone, set DABKE_SIZE=1",
                      launcher.name, launcher.size_is_known ? "" : "at least ", launcher.size,
                      launcher.evidence, launcher.remedy)};
}

}  // namespace dabke::bootstrap

#include "launcher/hosts/allocation.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "launcher/hosts/hostlist.h"

namespace dabke::launcher {
namespace {

using Found = Result<std::optional<Allocation>>;

Found slurm_allocation(const Environment& environment, const std::string& job) {
  const auto names = environment("SLURM_JOB_NODELIST");
  if (!names) return Found(std::nullopt);
  Allocation found{Allocation::Scheduler::slurm, fmt::format("Slurm job {}", job), {}};
  const std::string tasks = environment("SLURM_STEP_NUM_TASKS").value_or("1");
  if (tasks != "1") {
    return Status(
        Code::invalid_argument,
        fmt::format(
            "srun has started dabkerun {} times (SLURM_STEP_NUM_TASKS), and each would start a job: start it "
            "once, without srun or with srun --ntasks=1, or start the program itself with srun --mpi=pmi2",
            tasks));
  }
  DABKE_ASSIGN_OR_RETURN(const std::vector<std::string> hosts, parse_hostlist(*names, "SLURM_JOB_NODELIST"));
  std::string source = "SLURM_TASKS_PER_NODE";
  auto text = environment(source);
  int cores_a_slot = 1;
  if (!text) {
    text = environment(source = "SLURM_JOB_CPUS_PER_NODE");
    if (const auto cores = environment("SLURM_CPUS_PER_TASK")) {
      DABKE_ASSIGN_OR_RETURN(const std::vector<int> count,
                             parse_repeated_counts(*cores, "SLURM_CPUS_PER_TASK"));
      cores_a_slot = count.front();
    }
  }
  if (!text) {
    return Status(Code::invalid_argument,
                  fmt::format("{} sets neither SLURM_TASKS_PER_NODE nor SLURM_JOB_CPUS_PER_NODE: give the "
                              "hosts and their slots with -H",
                              found.job));
  }
  DABKE_ASSIGN_OR_RETURN(const std::vector<int> slots, parse_repeated_counts(*text, source));
  if (slots.size() != hosts.size()) {
    return Status(Code::invalid_argument, fmt::format("SLURM_JOB_NODELIST is '{}' ({} hosts), but {} is '{}' "
                                                      "({}): give the hosts and their slots with -H",
                                                      *names, hosts.size(), source, *text, slots.size()));
  }
  for (std::size_t i = 0; i < hosts.size(); ++i)
    found.hosts.push_back({hosts[i], std::max(1, slots[i] / cores_a_slot)});
  return Found(std::move(found));
}

Found pbs_allocation(const Environment& environment, const std::string& job) {
  const auto path = environment("PBS_NODEFILE");
  if (!path) return Found(std::nullopt);
  Allocation found{Allocation::Scheduler::pbs, fmt::format("PBS job {}", job), {}};
  auto hosts = read_hostfile(*path, "PBS_NODEFILE");
  if (!hosts.is_ok()) {
    return Status(hosts.status().code(),
                  fmt::format("{}; or give the hosts and their slots with -H", hosts.status().message()));
  }
  found.hosts = hosts.take();
  return Found(std::move(found));
}

Found lsf_allocation(const Environment& environment, const std::string& job) {
  Allocation found{Allocation::Scheduler::lsf, fmt::format("LSF job {}", job), {}};
  const std::string source = environment("LSB_HOSTS") ? "LSB_HOSTS" : "LSB_MCPU_HOSTS";
  const auto text = environment(source);
  if (!text) return Found(std::nullopt);
  std::istringstream words(*text);
  for (std::string name, slots; words >> name;) {
    // Parsed like the list of -H, so that the same rules hold for names.
    if (source == "LSB_MCPU_HOSTS" && words >> slots) name += ":" + slots;
    const auto host = parse_host_list(name, source);
    if (!host.is_ok()) {
      return Status(
          Code::invalid_argument,
          fmt::format("{} is '{}', and '{}' in it is not a host: give the hosts and their slots with -H",
                      source, *text, name));
    }
    found.hosts.insert(found.hosts.end(), host->begin(), host->end());
  }
  if (!found.hosts.empty()) return Found(std::move(found));
  return Status(Code::invalid_argument,
                fmt::format("{} names no host: give the hosts and their slots with -H", source));
}

}  // namespace

Found find_allocation(const Environment& environment) {
  if (const auto job = environment("SLURM_JOB_ID")) return slurm_allocation(environment, *job);
  if (const auto job = environment("PBS_JOBID")) return pbs_allocation(environment, *job);
  if (const auto job = environment("LSB_JOBID")) return lsf_allocation(environment, *job);
  return Found(std::nullopt);
}

}  // namespace dabke::launcher

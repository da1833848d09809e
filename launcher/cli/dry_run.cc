#include "launcher/cli/dry_run.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "launcher/job/dialled_agents.h"

namespace dabke {
namespace {

std::string ranks_on(const Host& host, const std::vector<RankPlacement>& placements) {
  const auto is_there = [&](const RankPlacement& placement) { return placement.host == host.name; };
  const auto first = std::ranges::find_if(placements, is_there);
  if (first == placements.end()) return "no rank";
  if (first->local_size == 1) return fmt::format("rank {}", first->rank);
  return fmt::format("ranks {}-{}", first->rank, first->rank + first->local_size - 1);
}

}  // namespace

std::string dry_run_text(const Options& options, const JobHosts& hosts,
                         const std::vector<RankPlacement>& placements, const RemoteShell& shell) {
  std::string out = fmt::format("Nothing is started. The hosts are from {}.\n", hosts.source);
  std::vector<std::string> by_srun;
  for (const Host& host : hosts.hosts) {
    const bool is_here = host.name == hosts.here;
    const std::string ranks = ranks_on(host, placements);
    out +=
        fmt::format("host {}{}: {} slots, {}\n", host.name, is_here ? " (this one)" : "", host.slots, ranks);
    const bool is_reached = !is_here && ranks != "no rank";
    if (is_reached && hosts.by_slurm) by_srun.push_back(host.name);
    if (is_reached && !hosts.by_slurm)
      out += fmt::format("  its agent: {}\n", as_shell_words(remote_command(shell, host.name)));
  }
  if (!by_srun.empty())
    out +=
        fmt::format("agents of other hosts: {}\n", as_shell_words(srun_command(shell.dabkerun, by_srun, {})));
  out += fmt::format("each rank runs: {}\n  in: {}\n", as_shell_words(options.command),
                     std::filesystem::current_path().string());
  for (const auto& [name, value] : options.knobs) out += fmt::format("  with: {}={}\n", name, value);
  return out;
}

}  // namespace dabke

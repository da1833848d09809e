#include "launcher/cli/dry_run.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "launcher/reach/dialled_agents.h"
#include "runtime/base/text/counted.h"

namespace dabke::launcher {
namespace {

std::string ranks_on(const Host& host, const std::vector<RankPlacement>& placements) {
  const auto is_there = [&](const RankPlacement& placement) { return placement.host == host.name; };
  const auto first = std::ranges::find_if(placements, is_there);
  if (first == placements.end()) return "no rank";
  if (first->local_size == 1) return fmt::format("rank {}", first->rank);
  return fmt::format("ranks {}-{}", first->rank, first->rank + first->local_size - 1);
}

std::string text_of(const GivenVariable& variable) {
  if (!variable.value) return fmt::format("{}, as it is here", variable.name);
  std::string ranks;
  for (const auto& [first, last] : variable.ranks)
    ranks += fmt::format("{}{}", ranks.empty() ? " on ranks " : ",",
                         first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
  return fmt::format("{}={}{}", variable.name, *variable.value, ranks);
}

std::string_view text_of(std::optional<BindTo> bind_to) {
  switch (bind_to.value_or(BindTo::automatic)) {
    case BindTo::core: return "to its own share of the cores";
    case BindTo::none: return "to nothing";
    case BindTo::automatic: break;
  }
  return "to its own share of the cores, unless another job may share the host (auto)";
}

}  // namespace

std::string dry_run_text(const Options& options, const JobHosts& hosts,
                         const std::vector<RankPlacement>& placements, const RemoteShell& shell) {
  std::string out = fmt::format("Nothing is started. The hosts come from {}.\n", hosts.source);
  std::vector<std::string> by_srun;
  for (const Host& host : hosts.hosts) {
    const bool is_here = host.name == hosts.here;
    const std::string ranks = ranks_on(host, placements);
    out += fmt::format("host {}{}: {}, {}\n", host.name, is_here ? " (this one)" : "",
                       counted(host.slots, "slot"), ranks);
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
  for (const GivenVariable& variable : options.variables)
    out += fmt::format("  with: {}\n", text_of(variable));
  for (const auto& [name, value] : options.knobs) out += fmt::format("  with: {}={}\n", name, value);
  out += fmt::format("  bound: {}\n", text_of(options.bind_to));
  out +=
      fmt::format("  standard input: {}\n", options.stdin_to_rank_0 ? "rank 0 reads dabkerun's" : "nothing");
  if (!options.output_directory.empty())
    out += fmt::format("  its output: also in {}/rank.<rank>/stdout and stderr\n", options.output_directory);
  return out;
}

}  // namespace dabke::launcher

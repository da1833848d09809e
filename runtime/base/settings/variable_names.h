// Names of the variables that Dabke reads, and of those that look like them.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dabke {

/// What a launcher tells each rank, after DABKE_ or HOROVOD_.
inline constexpr std::array<std::string_view, 12> kLauncherVariables{
    "RANK",     "SIZE",       "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK",    "CROSS_SIZE",
    "HOSTNAME", "RENDEZVOUS", "JOB_ID",     "JOB_KEY",    "GATHERS_DUMPS", "MERGES_TIMELINE"};

/// A line for each of `names` that nobody reads and that is close to one that is read: what was set, and what may have been
/// meant. Pure.
std::vector<std::string> misspelt_variables(std::span<const std::string> names);

/// The names of all variables of this process.
std::vector<std::string> variables_of_process();

}  // namespace dabke

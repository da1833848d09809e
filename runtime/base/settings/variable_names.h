// The names of the variables that Dabke reads, and warnings about names that resemble them.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dabke {

/// The variables that a launcher sets for each rank, without DABKE_ or HOROVOD_.
inline constexpr std::array<std::string_view, 12> kLauncherVariables{
    "RANK",     "SIZE",       "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK",    "CROSS_SIZE",
    "HOSTNAME", "RENDEZVOUS", "JOB_ID",     "JOB_KEY",    "GATHERS_DUMPS", "MERGES_TIMELINE"};

/// Returns a line for each of `names` that nothing reads and that resembles a variable that is read. The line
/// gives both names: the one that was set, and the one that may have been meant. Pure.
std::vector<std::string> misspelt_variables(std::span<const std::string> names);

/// The names of all variables of this process.
std::vector<std::string> variables_of_process();

}  // namespace dabke

// The launcher's variables that the ranks of another host get. Pure.
#pragma once

#include <string>
#include <vector>

namespace dabke::launcher {

/// Returns `environment` (NAME=value each) without variables of this host, of this login or of another
/// launcher.
std::vector<std::string> forwarded_environment(std::vector<std::string> environment);

}  // namespace dabke::launcher

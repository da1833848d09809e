// Which of the launcher's variables the ranks of another host get. Pure.
#pragma once

#include <string>
#include <vector>

namespace dabke::launcher {

/// `environment` (NAME=value each) without what belongs to this host, to this login or to another launcher.
std::vector<std::string> forwarded_environment(std::vector<std::string> environment);

}  // namespace dabke::launcher

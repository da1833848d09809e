// The environment of one rank. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/hosts/placement.h"

namespace dabke::launcher {

struct JobFacts {
  std::string rendezvous;  // http://host:port
  std::string job_id;      // 32 hexadecimal digits
  // 64 hexadecimal digits. Secret, so it travels in the environment and never on a command line.
  std::string job_key;
  // Variables from flags, and variables with which dabkerun describes itself.
  std::vector<std::pair<std::string, std::string>> variables;
  // Ranks get their numbers when they meet; placement.rank is the number of the worker.
  bool is_elastic = false;
};

/// Sets a variable in `environment` (NAME=value each).
void set_variable(std::vector<std::string>& environment, std::string_view name, std::string_view value);

/// Returns the variable's value in `environment`; empty if it is not set.
std::string variable_in(const std::vector<std::string>& environment, const std::string& name);

/// Returns `inherited` (NAME=value each) with the variables of this rank set, and otherwise unchanged.
std::vector<std::string> worker_environment(const std::vector<std::string>& inherited, const JobFacts& job,
                                            const RankPlacement& placement);

}  // namespace dabke::launcher

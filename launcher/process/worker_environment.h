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
  std::string
      job_key;  // 64 hexadecimal digits; secret, so it travels in the environment and on no command line
  std::vector<std::pair<std::string, std::string>>
      variables;  // what flags set, and what dabkerun says of itself
};

/// In `environment` (NAME=value each).
void set_variable(std::vector<std::string>& environment, std::string_view name, std::string_view value);

/// Its value in `environment`; empty where it is not there.
std::string variable_in(const std::vector<std::string>& environment, const std::string& name);

/// `inherited` (NAME=value each) with the variables of this rank set, and nothing else changed.
std::vector<std::string> worker_environment(const std::vector<std::string>& inherited, const JobFacts& job,
                                            const RankPlacement& placement);

}  // namespace dabke::launcher

// The environment of one rank. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launcher/hosts/placement.h"

namespace dabke {

struct JobFacts {
  std::string rendezvous;  // http://host:port
  std::string job_id;      // 32 hexadecimal digits
  std::string
      job_key;  // 64 hexadecimal digits; secret, so it travels in the environment and on no command line
  std::vector<std::pair<std::string, std::string>>
      variables;  // what flags set, and what dabkerun says of itself
};

/// `inherited` (NAME=value each) with the variables of this rank set, and nothing else changed.
std::vector<std::string> worker_environment(const std::vector<std::string>& inherited, const JobFacts& job,
                                            const RankPlacement& placement);

}  // namespace dabke

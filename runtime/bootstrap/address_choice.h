// Which address each host of a job uses, from what its hosts have found out about each other. Pure.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/links/address_trials.h"
#include "runtime/links/interfaces.h"

namespace dabke::bootstrap {

/// What one host's leader saw of an address of another's.
struct Sighting {
  std::size_t by = 0;  // the host that tried, as below
  links::Trial::Outcome outcome = links::Trial::Outcome::none;
  std::string trouble;
};

struct Candidate {
  links::HostAddress at;
  std::vector<Sighting> seen;
};

struct HostCandidates {
  std::string name;                   // "rank 3 on host-b", its leader
  std::vector<Candidate> candidates;  // the likeliest first
};

/// Of each host the index of its address: reached by all that tried it, and of one family, because Gloo wants that;
/// IPv4 where both will do, unless the first host's likeliest address is of the other. Code transport or timeout names
/// the host of which no address will do, who could not reach it, and what to do.
Result<std::vector<std::size_t>> choose_addresses(const std::vector<HostCandidates>& hosts);

/// One row for each host: the address that was chosen, and what is wrong with the others.
std::string describe_choice(const std::vector<HostCandidates>& hosts, const std::vector<std::size_t>& chosen);

}  // namespace dabke::bootstrap

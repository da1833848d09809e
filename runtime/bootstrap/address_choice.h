// The choice of one address for each host of a job, from what the hosts have found out about each other.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/links/address_trials.h"
#include "runtime/links/interfaces.h"

namespace dabke::bootstrap {

/// The result of one leader's attempt to reach an address of another host.
struct Sighting {
  std::size_t by = 0;  // the index of the host that tried
  links::Trial::Outcome outcome = links::Trial::Outcome::none;
  std::string trouble;
};

struct Candidate {
  links::HostAddress at;
  std::vector<Sighting> seen;
};

struct HostCandidates {
  std::string name;                   // its leader, such as "rank 3 on host-b"
  std::vector<Candidate> candidates;  // the likeliest first
};

/// Returns for each host the index of its address: the one that most hosts reached, of those where none
/// failed.
///
/// All addresses are of one family, because Gloo requires that. The family of the first host's likeliest
/// address comes first, then the other. Code timeout names a host that another one could not reach at all;
/// code transport lists the addresses of each host if no family serves them all. Both name the remedy.
Result<std::vector<std::size_t>> choose_addresses(const std::vector<HostCandidates>& hosts);

/// One row for each host: the address that was chosen, and what is wrong with the others.
std::string describe_choice(const std::vector<HostCandidates>& hosts, const std::vector<std::size_t>& chosen);

}  // namespace dabke::bootstrap

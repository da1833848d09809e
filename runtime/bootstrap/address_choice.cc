#include "runtime/bootstrap/address_choice.h"

#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dabke::bootstrap {
namespace {

std::ptrdiff_t count_of(const Candidate& candidate, links::Trial::Outcome outcome) {
  return std::ranges::count(candidate.seen, outcome, &Sighting::outcome);
}

/// True if some tester reached the address and none failed there. A late answer does not count against the
/// address: each tester is known to have reached the host at some address.
bool will_do(const Candidate& candidate) {
  return count_of(candidate, links::Trial::Outcome::failed) == 0 &&
         count_of(candidate, links::Trial::Outcome::reached) > 0;
}

std::optional<std::size_t> best_of(const HostCandidates& host, int family) {
  std::optional<std::size_t> best;
  std::ptrdiff_t most = 0;
  for (std::size_t i = 0; i < host.candidates.size(); ++i) {
    const Candidate& each = host.candidates[i];
    const auto reached = count_of(each, links::Trial::Outcome::reached);
    if (each.at.address.family() != family || !will_do(each) || reached <= most) continue;
    most = reached;
    best = i;
  }
  return best;
}

std::string text_of(const Candidate& candidate) {
  return fmt::format("{} ({})", candidate.at.address.host(), candidate.at.interface);
}

/// The tester that has reached no address of the host; nothing if each has reached one.
std::optional<std::size_t> cut_off_from(const HostCandidates& host) {
  if (host.candidates.empty()) return std::nullopt;
  for (const Sighting& each : host.candidates.front().seen) {
    const bool has_reached = std::ranges::any_of(host.candidates, [&](const Candidate& candidate) {
      return std::ranges::any_of(candidate.seen, [&](const Sighting& sighting) {
        return sighting.by == each.by && sighting.outcome == links::Trial::Outcome::reached;
      });
    });
    if (!has_reached) return each.by;
  }
  return std::nullopt;
}

std::string trouble_of(const Candidate& candidate, std::size_t by) {
  const auto sighting = std::ranges::find(candidate.seen, by, &Sighting::by);
  return fmt::format("{}: {}", text_of(candidate),
                     sighting == candidate.seen.end() ? "not tried" : sighting->trouble);
}

constexpr const char* kRemedy =
    "check the network and firewalls between them, or name a network that all hosts share with "
    "DABKE_NETWORK_INTERFACE; the time limit is DABKE_START_TIMEOUT_SECONDS";

Status nobody_reaches(const HostCandidates& host, const HostCandidates& tester, std::size_t by) {
  std::vector<std::string> troubles;
  for (const Candidate& each : host.candidates) troubles.push_back(trouble_of(each, by));
  return {Code::timeout, fmt::format("{} cannot be reached from {} at any of its addresses: {}; {}",
                                     host.name, tester.name, fmt::join(troubles, "; "), kRemedy)};
}

Status no_common_address(const std::vector<HostCandidates>& hosts) {
  std::vector<std::string> rows;
  for (const HostCandidates& host : hosts) {
    std::vector<std::string> good;
    for (const Candidate& each : host.candidates) {
      if (will_do(each)) good.push_back(text_of(each));
    }
    rows.push_back(
        fmt::format("{}: {}", host.name, good.empty() ? "none" : fmt::format("{}", fmt::join(good, ", "))));
  }
  return {Code::transport, fmt::format("the hosts have neither IPv4 nor IPv6 addresses at which all reach "
                                       "each other; addresses that all reach: {}; {}",
                                       fmt::join(rows, "; "), kRemedy)};
}

std::vector<std::size_t> choose_of_family(const std::vector<HostCandidates>& hosts, int family) {
  std::vector<std::size_t> chosen;
  for (const HostCandidates& host : hosts) {
    const auto best = best_of(host, family);
    if (!best) return {};
    chosen.push_back(*best);
  }
  return chosen;
}

}  // namespace

Result<std::vector<std::size_t>> choose_addresses(const std::vector<HostCandidates>& hosts) {
  for (const HostCandidates& host : hosts) {
    if (const auto by = cut_off_from(host)) return nobody_reaches(host, hosts[*by], *by);
  }
  const auto& first = hosts.front().candidates;
  const int likeliest = first.empty() ? AF_INET : first.front().at.address.family();
  for (const int family : {likeliest, likeliest == AF_INET ? AF_INET6 : AF_INET}) {
    if (auto chosen = choose_of_family(hosts, family); !chosen.empty()) return chosen;
  }
  return no_common_address(hosts);
}

std::string describe_choice(const std::vector<HostCandidates>& hosts,
                            const std::vector<std::size_t>& chosen) {
  std::string table = "the hosts reach each other at";
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto& candidates = hosts[i].candidates;
    table += fmt::format("\n  {}: {}", hosts[i].name, text_of(candidates[chosen[i]]));
    for (const Candidate& each : candidates) {
      const auto failed = std::ranges::find(each.seen, links::Trial::Outcome::failed, &Sighting::outcome);
      if (failed == each.seen.end()) continue;
      table +=
          fmt::format("\n    not {}: from {}: {}", text_of(each), hosts[failed->by].name, failed->trouble);
    }
  }
  return table;
}

}  // namespace dabke::bootstrap

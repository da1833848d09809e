#include "runtime/bootstrap/host_addresses.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "runtime/bootstrap/address_choice.h"
#include "runtime/bootstrap/roster.h"
#include "runtime/links/address_trials.h"
#include "runtime/links/interfaces.h"
#include "runtime/store/init_failure.h"

namespace dabke::bootstrap {
namespace {

using namespace std::chrono_literals;

/// A process that reaches the deadline leaves what it has seen. The next in line waits this much longer for
/// that.
constexpr Duration kReportAhead = 1s;
constexpr Duration kVerdictAhead = 2s;
constexpr const char* kVerdictKey = "network/verdict";
constexpr const char* kGood = "ok";
constexpr const char* kBad = "error";

std::string addresses_key(Rank leader) { return fmt::format("network/addresses/{}", leader); }
std::string seen_key(Rank leader) { return fmt::format("network/seen/{}", leader); }

std::string bad_text(const Status& why) {
  return fmt::format("{}\n{}\n{}\n", kBad, static_cast<int>(why.code()), one_line(why.message()));
}

/// The lines after the first, or the error that the writer has left.
Result<std::vector<std::string>> lines_left(const std::string& text, const std::string& by) {
  auto lines = lines_of(text);
  if (!lines.empty() && lines[0] == kGood) {
    lines.erase(lines.begin());
    return lines;
  }
  int code = 0;
  if (lines.size() == 3 && lines[0] == kBad)
    std::from_chars(lines[1].data(), lines[1].data() + lines[1].size(), code);
  if (code == 0) return Status(Code::internal, fmt::format("{} left an invalid message in the store", by));
  return Status(static_cast<Code>(code), lines[2]);
}

/// The line in which a leader stores its result for one address of another leader.
std::string seen_line(const links::Trial& trial) {
  return fmt::format("{} {} {} {}\n", trial.rank, trial.address.to_string(), static_cast<int>(trial.outcome),
                     one_line(trial.trouble));
}

struct SeenLine {
  Rank rank = -1;
  std::string address;
  links::Trial::Outcome outcome = links::Trial::Outcome::none;
  std::string trouble;
};

SeenLine parse_seen(const std::string& line) {
  std::istringstream words(line);
  SeenLine seen;
  int outcome = 0;
  words >> seen.rank >> seen.address >> outcome >> std::ws;
  seen.outcome = static_cast<links::Trial::Outcome>(outcome);
  std::getline(words, seen.trouble);
  return seen;
}

class Agreement {
 public:
  Agreement(const World& world, const Config& config, store::Store& store, TimePoint deadline)
      : world_(world), config_(config), store_(store), deadline_(deadline) {
    for (Rank rank = 0; rank < world.size; ++rank) {
      const auto& host = host_of(rank);
      if (std::ranges::none_of(leaders_, [&](Rank leader) { return host_of(leader) == host; }))
        leaders_.push_back(rank);
    }
  }

  Result<AgreedAddress> run();

 private:
  const std::string& host_of(Rank rank) const { return world_.hosts[static_cast<std::size_t>(rank)]; }
  std::size_t own_place() const {
    const auto own =
        std::ranges::find_if(leaders_, [&](Rank leader) { return host_of(leader) == host_of(world_.rank); });
    return static_cast<std::size_t>(own - leaders_.begin());
  }
  bool leads() const { return leaders_[own_place()] == world_.rank; }

  Status lead();
  Status try_others(const links::Handshake::Self& self);
  Status publish(const std::vector<links::HostAddress>& own, const links::TrialListener& door);
  Result<std::vector<links::HostAddress>> addresses_of(Rank leader);
  Result<std::vector<links::Trial>> trials();
  Status report(const std::vector<links::Trial>& trials);
  Result<std::string> wait_for(const std::string& key, Rank from, TimePoint until);
  Result<std::vector<HostCandidates>> gather();
  Status take_report(std::size_t place, std::vector<HostCandidates>& hosts);
  Result<std::string> judge();
  Result<std::string> verdict();

  const World& world_;
  const Config& config_;
  store::Store& store_;
  const TimePoint deadline_;
  std::vector<Rank> leaders_;  // one for each host, in the order of the hosts
  std::unique_ptr<links::TrialListener> door_;
  std::string table_;
};

Result<std::string> Agreement::wait_for(const std::string& key, Rank from, TimePoint until) {
  auto text = store_.get(key, until);
  if (text.is_ok() || text.status().code() != Code::timeout) return text;
  const Rank absent[] = {from};
  const store::AbsentRanks described = store::describe_absent(store_, world_, absent);
  return Status(Code::timeout, fmt::format("{} did not report the addresses at which hosts reach each "
                                           "other{}; the limit is {} s (DABKE_START_TIMEOUT_SECONDS)",
                                           described.who, described.reported, config_.start_timeout));
}

/// Publishes this host's addresses, without those on which it cannot listen.
Status Agreement::publish(const std::vector<links::HostAddress>& own, const links::TrialListener& door) {
  std::string text = fmt::format("{}\n", kGood);
  for (std::size_t i = 0; i < own.size(); ++i) {
    const links::SocketAddress& at = door.listens_at()[i];
    if (at.port() != 0) text += fmt::format("{} {}\n", at.to_string(), own[i].interface);
  }
  return store_.set(addresses_key(world_.rank), text);
}

Result<std::vector<links::HostAddress>> Agreement::addresses_of(Rank leader) {
  DABKE_ASSIGN_OR_RETURN(const std::string text, wait_for(addresses_key(leader), leader, deadline_));
  DABKE_ASSIGN_OR_RETURN(const auto lines, lines_left(text, world_.name_of(leader)));
  std::vector<links::HostAddress> addresses;
  for (const std::string& line : lines) {
    const auto space = line.find(' ');
    DABKE_ASSIGN_OR_RETURN(const links::SocketAddress address,
                           links::SocketAddress::parse(line.substr(0, space)));
    addresses.push_back({address, space == std::string::npos ? "" : line.substr(space + 1)});
  }
  return addresses;
}

Result<std::vector<links::Trial>> Agreement::trials() {
  std::vector<links::Trial> trials;
  for (std::size_t distance = 1; distance < leaders_.size(); distance *= 2) {
    const Rank leader = leaders_[(own_place() + distance) % leaders_.size()];
    DABKE_ASSIGN_OR_RETURN(const auto addresses, addresses_of(leader));
    for (const links::HostAddress& each : addresses) trials.push_back({leader, each.address});
  }
  return trials;
}

Status Agreement::report(const std::vector<links::Trial>& trials) {
  std::string text = fmt::format("{}\n", kGood);
  for (const links::Trial& each : trials) text += seen_line(each);
  return store_.set(seen_key(world_.rank), text);
}

Status Agreement::lead() {
  DABKE_ASSIGN_OR_RETURN(const std::vector<links::HostAddress> own,
                         links::candidate_addresses(config_, store_.describe()));
  std::vector<links::SocketAddress> addresses;
  for (const links::HostAddress& each : own) addresses.push_back(each.address);
  const links::Handshake::Self self{world_.job_id, world_.job_key, world_.epoch, world_.rank,
                                    links::identity_of_this_process()};
  DABKE_ASSIGN_OR_RETURN(door_, links::TrialListener::open(self, addresses));
  DABKE_RETURN_IF_ERROR(publish(own, *door_));
  return try_others(self);
}

Status Agreement::try_others(const links::Handshake::Self& self) {
  DABKE_ASSIGN_OR_RETURN(std::vector<links::Trial> trials, this->trials());
  DABKE_RETURN_IF_ERROR(links::try_addresses(self, trials, deadline_, [this] { return store_.trouble(); }));
  return report(trials);
}

/// Adds the results of the leader at `place` to the candidates that it has tried.
Status Agreement::take_report(std::size_t place, std::vector<HostCandidates>& hosts) {
  const Rank leader = leaders_[place];
  DABKE_ASSIGN_OR_RETURN(const std::string text,
                         wait_for(seen_key(leader), leader, deadline_ + kReportAhead));
  DABKE_ASSIGN_OR_RETURN(const auto lines, lines_left(text, world_.name_of(leader)));
  for (const std::string& line : lines) {
    const SeenLine seen = parse_seen(line);
    const auto host = std::ranges::find(leaders_, seen.rank);
    if (host == leaders_.end()) continue;
    for (Candidate& each : hosts[static_cast<std::size_t>(host - leaders_.begin())].candidates) {
      if (each.at.address.to_string() == seen.address)
        each.seen.push_back({place, seen.outcome, seen.trouble});
    }
  }
  return {};
}

/// Rank 0: the results of all leaders.
Result<std::vector<HostCandidates>> Agreement::gather() {
  std::vector<HostCandidates> hosts;
  for (const Rank leader : leaders_) {
    DABKE_ASSIGN_OR_RETURN(const auto addresses, addresses_of(leader));
    HostCandidates& host = hosts.emplace_back(HostCandidates{world_.name_of(leader), {}});
    for (const links::HostAddress& each : addresses) host.candidates.push_back({each, {}});
  }
  for (std::size_t place = 0; place < leaders_.size(); ++place)
    DABKE_RETURN_IF_ERROR(take_report(place, hosts));
  return hosts;
}

/// Rank 0: the verdict in the form in which it is stored.
Result<std::string> Agreement::judge() {
  DABKE_ASSIGN_OR_RETURN(const auto hosts, gather());
  DABKE_ASSIGN_OR_RETURN(const auto chosen, choose_addresses(hosts));
  table_ = describe_choice(hosts, chosen);
  std::string text = fmt::format("{}\n", kGood);
  for (std::size_t i = 0; i < hosts.size(); ++i)
    text += fmt::format("{}\n", hosts[i].candidates[chosen[i]].at.address.host());
  return text;
}

Result<std::string> Agreement::verdict() {
  if (world_.rank != 0) return wait_for(kVerdictKey, 0, deadline_ + kVerdictAhead);
  const auto judged = judge();
  const std::string text = judged.is_ok() ? *judged : bad_text(judged.status());
  DABKE_RETURN_IF_ERROR(store_.set(kVerdictKey, text));
  return text;
}

Result<AgreedAddress> Agreement::run() {
  if (leads()) {
    if (const Status led = lead(); !led.is_ok()) {
      // Every rank that waits for either key gets the error, and rank 0 makes it the verdict for all.
      const std::string text = bad_text(store::init_failure_of(world_.name_of(world_.rank), led));
      DABKE_RETURN_IF_ERROR(store_.set(seen_key(world_.rank), text));
      DABKE_RETURN_IF_ERROR(store_.set(addresses_key(world_.rank), text));
    }
  }
  DABKE_ASSIGN_OR_RETURN(const std::string text, verdict());
  DABKE_ASSIGN_OR_RETURN(const auto addresses, lines_left(text, world_.name_of(0)));
  if (addresses.size() != leaders_.size())
    return Status(Code::internal, "rank 0 left an invalid choice of addresses in the store");
  return AgreedAddress{addresses[own_place()], table_};
}

}  // namespace

Result<AgreedAddress> agree_on_address(const World& world, const Config& config, store::Store& epoch,
                                       TimePoint deadline) {
  const bool is_one_host =
      std::ranges::all_of(world.hosts, [&](const auto& host) { return host == world.hosts.front(); });
  if (!is_one_host) return Agreement(world, config, epoch, deadline).run();
  DABKE_ASSIGN_OR_RETURN(const links::SocketAddress address, links::address_on_one_host(config));
  return AgreedAddress{address.host(), ""};
}

}  // namespace dabke::bootstrap

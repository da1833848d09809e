#include "launcher/doctor/findings.h"
#include "runtime/base/text/counted.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dabke::launcher {
namespace {

/// The difference in the time of day that is reported, beyond the uncertainty of the round trip.
constexpr std::int64_t kSkewTold = 1'000'000'000;
/// The descriptors of a rank's own links, its supervisor, the agent and the launcher, and a few more.
constexpr std::int64_t kFilesOfRank = 64, kFilesOfAgent = 64;
/// The threads of a rank that trains: the library's, those of a data loader and of kernels.
constexpr std::int64_t kThreadsOfRank = 32;
/// The least shared memory of a rank, for NCCL and PyTorch's data loaders. Dabke itself uses none of it.
constexpr std::int64_t kSharedOfRank = std::int64_t{64} << 20;
/// The most unreachable hosts that are named for one host; more are only counted.
constexpr std::size_t kMostNamed = 3;
/// A route counts as slow below this fraction of the median bandwidth.
constexpr double kSlowPart = 0.25;

class Judge {
 public:
  explicit Judge(const CheckupReport& report) : report_(report) {}

  std::vector<Finding> all() {
    for (const HostReport& host : report_.hosts) judge(host);
    judge_machines();
    judge_routes();
    std::ranges::stable_sort(findings_,
                             [](const Finding& a, const Finding& b) { return a.is_wrong > b.is_wrong; });
    return std::move(findings_);
  }

 private:
  void wrong(std::string what) { findings_.push_back({true, std::move(what), {}}); }
  void note(std::string what) { findings_.push_back({false, std::move(what), {}}); }

  void judge(const HostReport& host) {
    const std::string& name = host.host.name;
    if (!host.trouble.empty()) {
      findings_.push_back({true, host.trouble.front(), {host.trouble.begin() + 1, host.trouble.end()}});
      return;
    }
    if (host.clock && std::abs(host.clock->ahead_ns) - host.clock->bound_ns > kSkewTold)
      note(
          fmt::format("host {}: its clock is {:.1f} s {} this host's: times in logs will not match; "
                      "synchronise both with chrony or ntpd",
                      name, static_cast<double>(std::abs(host.clock->ahead_ns)) / 1e9,
                      host.clock->ahead_ns > 0 ? "ahead of" : "behind"));
    if (host.facts) judge(name, host.host.slots, *host.facts);
  }

  void judge(const std::string& name, std::int64_t slots, const ExaminedMessage& facts) {
    if (facts.addresses.empty())
      wrong(
          fmt::format("host {}: it cannot listen at any address ({}): check --network-interfaces and the "
                      "host's interfaces",
                      name, fmt::join(facts.troubles, "; ")));
    else if (!facts.troubles.empty())
      note(fmt::format("host {}: it cannot listen at some of its addresses: {}", name,
                       fmt::join(facts.troubles, "; ")));
    const std::int64_t files = kFilesOfAgent + slots * kFilesOfRank;
    if (facts.open_files >= 0 && facts.open_files < files)
      wrong(
          fmt::format("host {}: {} may need {} open files, but the hard limit is {} (ulimit -Hn): raise it "
                      "in /etc/security/limits.conf, or in sshd's or slurmd's unit (LimitNOFILE)",
                      name, counted(slots, "rank"), files, facts.open_files));
    if (facts.processes >= 0 && facts.processes < slots * kThreadsOfRank)
      wrong(
          fmt::format("host {}: {} may need {} processes and threads, but the hard limit is {} (ulimit -Hu): "
                      "raise it in /etc/security/limits.conf",
                      name, counted(slots, "rank"), slots * kThreadsOfRank, facts.processes));
    const std::int64_t granted =
        facts.quota_thousandths > 0 ? (facts.quota_thousandths + 999) / 1000 : INT64_MAX;
    const std::int64_t cores =
        std::min<std::int64_t>(granted, facts.usable_units > 0 ? facts.usable_units : INT64_MAX);
    if (slots > cores)
      note(
          fmt::format("host {}: {} share {}{}: give it fewer slots, or expect ranks to wait "
                      "for each other",
                      name, counted(slots, "rank"), counted(cores, "processor"),
                      granted == cores ? " granted by the control group" : ""));
    judge_shared_memory(name, slots, facts);
  }

  void judge_shared_memory(const std::string& name, std::int64_t slots, const ExaminedMessage& facts) {
    constexpr const char* kRemedy = "mount it larger (mount -o remount,size=..., docker run --shm-size)";
    if (facts.shm < 0 || !facts.is_shm_writable) {
      note(
          fmt::format("host {}: /dev/shm is missing or not writable, but NCCL and the data loaders of "
                      "PyTorch need it: mount a tmpfs there",
                      name));
    } else if (facts.free_shm < slots * kSharedOfRank) {
      note(
          fmt::format("host {}: /dev/shm has {} free, which is little for NCCL and the data loaders of "
                      "PyTorch in {}: {}",
                      name, size_text(facts.free_shm), counted(slots, "rank"), kRemedy));
    }
  }

  void judge_machines() {
    std::map<std::string, std::vector<std::string>> names;
    for (const HostReport& host : report_.hosts) {
      if (!host.machine.empty()) names[host.machine].push_back(host.host.name);
    }
    for (const auto& [machine, all] : names) {
      if (all.size() > 1)
        note(fmt::format("{} are one machine, so they will count as one host", fmt::join(all, ", ")));
    }
  }

  void judge_routes() {
    std::vector<std::int64_t> bandwidths;
    std::map<std::size_t, std::vector<const RouteReport*>> missing;  // by where they begin
    for (const RouteReport& route : report_.routes) {
      if (!route.trouble.empty()) missing[route.from].push_back(&route);
      if (route.trouble.empty() && route.bytes_per_s > 0) bandwidths.push_back(route.bytes_per_s);
    }
    for (const auto& [from, routes] : missing) {
      if (routes.size() > kMostNamed) {
        wrong(fmt::format("host {} does not reach {} other hosts; for host {}: {}: {}", name_of(from),
                          routes.size(), name_of(routes.front()->to), routes.front()->trouble,
                          remedy_for(routes.front()->to)));
      } else {
        for (const RouteReport* route : routes)
          wrong(fmt::format("host {} does not reach host {}: {}: {}", name_of(from), name_of(route->to),
                            route->trouble, remedy_for(route->to)));
      }
    }
    if (bandwidths.size() < 3) return;
    const auto middle = bandwidths.begin() + static_cast<std::ptrdiff_t>(bandwidths.size() / 2);
    std::ranges::nth_element(bandwidths, middle);
    for (const RouteReport& route : report_.routes) {
      if (route.bytes_per_s > 0 &&
          static_cast<double>(route.bytes_per_s) < kSlowPart * static_cast<double>(*middle))
        note(fmt::format(
            "from host {} to host {}: {}/s, but at least {}/s on half of all connections: the slowest delays "
            "every rank; check that link, or choose interfaces with --network-interfaces",
            name_of(route.from), name_of(route.to), size_text(route.bytes_per_s), size_text(*middle)));
    }
  }

  const std::string& name_of(std::size_t at) const { return report_.hosts[at].host.name; }
  std::string remedy_for(std::size_t at) const {
    const auto& facts = report_.hosts[at].facts;
    const std::string ports = facts && facts->first_port >= 0
                                  ? fmt::format(" (ports {} to {})", facts->first_port, facts->last_port)
                                  : "";
    return fmt::format(
        "let firewalls pass TCP between them{}, or choose interfaces with --network-interfaces", ports);
  }

  const CheckupReport& report_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> findings_of(const CheckupReport& report) { return Judge(report).all(); }

bool is_well(const std::vector<Finding>& findings) {
  return std::ranges::none_of(findings, &Finding::is_wrong);
}

std::string size_text(std::int64_t bytes) {
  if (bytes < 0) return "-";
  if (bytes == INT64_MAX) return "none";
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (size >= 1024 && unit + 1 < std::size(kUnits)) {
    size /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", size, kUnits[unit]);
}

}  // namespace dabke::launcher

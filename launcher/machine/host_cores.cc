#include "launcher/machine/host_cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace dabke::launcher {
namespace {

std::vector<int> usable_units() {
  std::vector<int> units;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return units;
  for (int unit = 0; unit < CPU_SETSIZE; ++unit) {
    if (CPU_ISSET(unit, &set)) units.push_back(unit);
  }
  return units;
}

std::vector<CacheCores> one_cache_of(const std::vector<int>& units) {
  CacheCores cores;
  for (const int unit : units) cores.push_back({unit});
  return {cores};
}

std::string text_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Reads the quota of a control group. In version 2 it is "200000 100000" or "max 100000", in version 1 two
/// files.
double quota_in(const std::filesystem::path& group) {
  std::istringstream both(text_in(group / "cpu.max"));
  double granted = 0, period = 0;
  if (!(both >> granted >> period)) {
    std::istringstream first(text_in(group / "cpu.cfs_quota_us")),
        second(text_in(group / "cpu.cfs_period_us"));
    if (!(first >> granted && second >> period)) return 0;
  }
  return granted > 0 && period > 0 ? granted / period : 0;
}

/// Returns the least quota of the group and all groups above it.
double least_quota(const std::filesystem::path& root, std::filesystem::path group) {
  double least = 0;
  for (;; group = group.parent_path()) {
    const double quota = quota_in(root / group.relative_path());
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
    if (!group.has_relative_path()) return least;
  }
}

}  // namespace

double processor_quota(const std::string& root, const std::string& own) {
  double least = 0;
  std::istringstream lines(own);
  for (std::string line; std::getline(lines, line);) {  // "0::/path", "4:cpu,cpuacct:/path"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::istringstream names(controllers);
    bool is_cpu = controllers.empty();
    for (std::string name; std::getline(names, name, ',');) is_cpu = is_cpu || name == "cpu";
    if (!is_cpu) continue;
    const std::filesystem::path folder = std::filesystem::path(root) / controllers;
    const double quota = least_quota(folder, line.substr(second + 1));
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
  }
  return least;
}

HostCores cores_of_this_host() {
  const std::vector<int> units = usable_units();
  const auto caches = cores_by_cache(units);
  return {.caches = caches ? *caches : one_cache_of(units),
          .is_guessed = !caches,
          .is_whole_host = static_cast<long>(units.size()) >= ::sysconf(_SC_NPROCESSORS_ONLN),
          .quota = processor_quota("/sys/fs/cgroup", text_in("/proc/self/cgroup"))};
}

}  // namespace dabke::launcher

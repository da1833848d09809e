#include "launcher/machine/host_cores.h"

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/skip.h"

namespace dabke::test {
using namespace launcher;

TEST_CASE("cores are found with their units by the last cache that they share") {
  if (!HWLOC) DABKE_SKIP("built without hwloc");
  // Two sockets with two third-level caches each. A cache serves two cores of two units.
  const auto caches = cores_by_cache({}, "pack:2 l3:2 l2:2 core:1 pu:2").value();
  REQUIRE(caches.size() == 4);
  CHECK(caches[0] == CacheCores{{0, 1}, {2, 3}});
  CHECK(caches[3] == CacheCores{{12, 13}, {14, 15}});
  const auto second_level = cores_by_cache({}, "l2:2 core:2 pu:1").value();
  REQUIRE(second_level.size() == 2);
  CHECK(second_level[1] == CacheCores{{2}, {3}});
  CHECK(cores_by_cache({}, "core:3 pu:1").value().size() == 1);
  CHECK_FALSE(cores_by_cache({}, "no topology"));
}

TEST_CASE("ranks of synthetic hosts stay within a cache") {
  if (!HWLOC) DABKE_SKIP("built without hwloc");
  HostCores host;
  host.caches = cores_by_cache({}, "pack:2 l3:1 core:5 pu:2").value();
  const CoreShares shares = share_cores(host, 4, BindTo::core);
  CHECK(shares.units ==
        std::vector<std::vector<int>>{{0, 1, 2, 3}, {4, 5, 6, 7}, {10, 11, 12, 13}, {14, 15, 16, 17}});
  CHECK(shares.threads == 2);
}

TEST_CASE("of this host's cores those are found that this process may use") {
  const HostCores host = cores_of_this_host();
  std::size_t units = 0;
  for (const CacheCores& cache : host.caches) {
    for (const Core& core : cache) units += core.size();
  }
  CHECK(units > 0);
  CHECK(host.is_guessed == !HWLOC);
}

TEST_CASE("the least quota of a control group and those above it counts, of either version") {
  const TemporaryDirectory root;
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root.path() + path).parent_path());
    std::ofstream(root.path() + path) << text;
  };
  CHECK(processor_quota(root.path(), "0::/\n") == 0);
  write("/job/cpu.max", "300000 100000\n");
  write("/job/step/cpu.max", "max 100000\n");
  CHECK(processor_quota(root.path(), "0::/job/step\n") == 3);
  CHECK(processor_quota(root.path(), "0::/other\n") == 0);
  write("/cpu,cpuacct/a/cpu.cfs_quota_us", "150000\n");
  write("/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  write("/cpu,cpuacct/b/cpu.cfs_quota_us", "-1\n");
  write("/cpu,cpuacct/b/cpu.cfs_period_us", "100000\n");
  CHECK(processor_quota(root.path(), "9:pids:/a\n4:cpu,cpuacct:/a\n") == 1.5);
  CHECK(processor_quota(root.path(), "4:cpu,cpuacct:/b\n") == 0);
  CHECK(processor_quota(root.path(), "nonsense\n") == 0);
}

}  // namespace dabke::test

#include "launcher/cli/job_hosts.h"

#include <map>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

const std::map<std::string, std::string> kSlurm{
    {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "node[1-2].invalid"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}};

}  // namespace

TEST_CASE("without a batch system, -H or a host file, -np is needed and all ranks run here") {
  CHECK(hosts_of_job({}, environment_of({})).status().message() ==
        "-np is missing: give the number of ranks, as in dabkerun -np 2 ./train");
  CHECK(hosts_of_job({.num_proc = 3}, environment_of({}))->hosts == std::vector<Host>{{this_host_name(), 3}});
}

TEST_CASE("hosts of a config file are said to be from there, in errors too") {
  const auto found = hosts_of_job({.hosts = "other.invalid:3", .hosts_from = "c.yaml"}, environment_of({}));
  REQUIRE(found.is_ok());
  CHECK(found->source == "--config-file c.yaml: hosts");
  CHECK_THAT(hosts_of_job({.hosts = "a:0", .hosts_from = "c.yaml"}, environment_of({})).status().message(),
             Catch::StartsWith("--config-file c.yaml: hosts a:0: 'a:0' is not a host"));
  CHECK_THAT(
      hosts_of_job({.hostfile = "/nowhere/f", .hosts_from = "c.yaml"}, environment_of({})).status().message(),
      Catch::StartsWith("--config-file c.yaml: hostfile /nowhere/f: cannot read it"));
}

TEST_CASE("a batch system's hosts are those of the job, unless the command line names others") {
  const auto found = hosts_of_job({}, environment_of(kSlurm));
  REQUIRE(found.is_ok());
  CHECK(found->hosts == std::vector<Host>{{"node1.invalid", 2}, {"node2.invalid", 2}});
  CHECK(found->source == "Slurm job 7");
  CHECK(found->is_allocated);
  const auto named = hosts_of_job({.hosts = "other.invalid:3"}, environment_of(kSlurm));
  REQUIRE(named.is_ok());
  CHECK(named->hosts == std::vector<Host>{{"other.invalid", 3}});
  CHECK_FALSE(named->is_allocated);
}

}  // namespace dabke::test

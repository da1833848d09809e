#include "launcher/cli/job_hosts.h"

#include <filesystem>
#include <fstream>
#include <map>

#include <catch2/catch.hpp>

#include "tests/temporary_directory.h"

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

TEST_CASE("a discovery script is the only source of hosts, also inside a batch system") {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/nodes";
  std::ofstream(file) << "node1.invalid\nnode2.invalid\n";
  for (const auto& variables : std::vector<std::map<std::string, std::string>>{
           {},
           kSlurm,
           {{"PBS_JOBID", "8"}, {"PBS_NODEFILE", file}},
           {{"LSB_JOBID", "9"}, {"LSB_HOSTS", "node1.invalid"}}}) {
    const Environment environment = environment_of(variables);
    Options options{.num_proc = 2, .elastic = ElasticOptions{.min_np = 1}};
    CHECK_FALSE(hosts_of_job(options, environment)->hosts.empty());
    options.elastic->discovery_script = "./hosts.sh";
    const auto found = hosts_of_job(options, environment);
    REQUIRE(found.is_ok());
    CHECK(found->hosts.empty());
    CHECK(found->source == "--host-discovery-script");
    CHECK_FALSE(found->is_allocated);
    CHECK(found->here == this_host_name());
  }
}

TEST_CASE(
    "inside a Slurm job, a discovery script may list the hosts that srun reaches, unless ssh is asked for") {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() + "/srun") << "#!/bin/sh\n";
  std::filesystem::permissions(directory.path() + "/srun", std::filesystem::perms::owner_all);
  auto variables = kSlurm;
  variables["SLURM_JOB_NODELIST"] = "node1.invalid,localhost";
  variables["PATH"] = directory.path();
  Options options{.elastic = ElasticOptions{.discovery_script = "./hosts.sh"}};
  const auto found = hosts_of_job(options, environment_of(variables));
  REQUIRE(found.is_ok());
  CHECK(found->by_slurm);
  CHECK(found->slurm_job == "Slurm job 7");
  CHECK(found->slurm_hosts == std::vector<Host>{{"node1.invalid", 2}, {"localhost", 2}});
  CHECK(found->here == "localhost");
  CHECK(found->hosts.empty());
  options.launcher = "ssh";
  const auto by_ssh = hosts_of_job(options, environment_of(variables));
  REQUIRE(by_ssh.is_ok());
  CHECK_FALSE(by_ssh->by_slurm);
  CHECK(by_ssh->slurm_job.empty());
  CHECK(by_ssh->slurm_hosts.empty());
}

}  // namespace dabke::test

#include "launcher/hosts/allocation.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "launcher/hosts/hostlist.h"

namespace dabke::test {
using namespace launcher;
namespace {

using Variables = std::map<std::string, std::string>;

Result<std::optional<Allocation>> find_in(const Variables& variables) {
  return find_allocation([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::vector<Host> hosts_in(const Variables& variables) {
  const auto found = find_in(variables);
  REQUIRE(found.is_ok());
  REQUIRE(found->has_value());
  return (*found)->hosts;
}

std::vector<std::string> names_in(std::string_view text) {
  const auto names = parse_hostlist(text, "X");
  return names.is_ok() ? *names : std::vector<std::string>{names.status().message()};
}

}  // namespace

TEST_CASE("a host list of Slurm names every host, with the width of its numbers") {
  using Names = std::vector<std::string>;
  CHECK(names_in("n1") == Names{"n1"});
  CHECK(names_in("n[01-03,7]") == Names{"n01", "n02", "n03", "n7"});
  CHECK(names_in("n[09-11]") == Names{"n09", "n10", "n11"});
  CHECK(names_in("login,gpu[8-9]-ib,n[3]") == Names{"login", "gpu8-ib", "gpu9-ib", "n3"});
  CHECK(names_in("rack[1-2]n[0-1]") == Names{"rack1n0", "rack1n1", "rack2n0", "rack2n1"});
  CHECK(names_in("n[00001-99999]").size() == 99999);
}

TEST_CASE("a host list that makes no sense is refused with what is wrong in it and what to do") {
  CHECK(names_in("a,n[1-").front() ==
        "X is 'a,n[1-', and 'a,n[1-' in it is not a list of hosts: expected names with ranges in brackets, "
        "as in n[01-03,7], 100000 hosts at most; give the hosts with -H");
  for (const std::string text :
       {"", "a,", ",a", "n[]", "n[1-]", "n[-1]", "n[3-1]", "n[a]", "n]1[", "n[[1]]", "n[1,]", "a b", "a:2",
        "a@b", "n[0-100000]", "n[0-999]m[0-999]", "n[18446744073709551616]", "n[1-9999999999999999999999]"}) {
    INFO(text);
    CHECK_THAT(names_in(text).front(),
               Catch::StartsWith("X is '" + text + "', and '") && Catch::EndsWith("give the hosts with -H"));
  }
}

TEST_CASE("counts of Slurm repeat as it says") {
  CHECK(*parse_repeated_counts("2(x3),1", "X") == std::vector<int>{2, 2, 2, 1});
  CHECK(*parse_repeated_counts("16", "X") == std::vector<int>{16});
  for (const std::string text :
       {"", "0", "2(x0)", "2(x", "2x3", "2(3)", "-1", "2,", "1(x100001)", "9999999"}) {
    INFO(text);
    CHECK_THAT(parse_repeated_counts(text, "X").status().message(),
               Catch::StartsWith("X is '" + text + "', and '") && Catch::Contains("as in 2(x3),1"));
  }
}

TEST_CASE("Slurm's variables give hosts and slots") {
  Variables slurm{
      {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_TASKS_PER_NODE", "4(x2),1"}};
  CHECK(hosts_in(slurm) == std::vector<Host>{{"n1", 4}, {"n2", 4}, {"n3", 1}});
  CHECK((*find_in(slurm))->job == "Slurm job 7");
  slurm.erase("SLURM_TASKS_PER_NODE");
  CHECK_THAT(find_in(slurm).status().message(),
             Catch::StartsWith("Slurm job 7 sets neither SLURM_TASKS_PER_NODE"));
  slurm["SLURM_JOB_CPUS_PER_NODE"] = "8(x3)";
  CHECK(hosts_in(slurm) == std::vector<Host>{{"n1", 8}, {"n2", 8}, {"n3", 8}});
  slurm["SLURM_CPUS_PER_TASK"] = "4";
  CHECK(hosts_in(slurm) == std::vector<Host>{{"n1", 2}, {"n2", 2}, {"n3", 2}});
  slurm["SLURM_TASKS_PER_NODE"] = "4(x2)";
  CHECK_THAT(find_in(slurm).status().message(),
             Catch::StartsWith(
                 "SLURM_JOB_NODELIST is 'n[1-3]' (3 hosts), but SLURM_TASKS_PER_NODE is '4(x2)' (2): give"));
}

TEST_CASE("several dabkeruns of one srun are refused") {
  Variables slurm{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n1"}, {"SLURM_TASKS_PER_NODE", "4"}};
  slurm["SLURM_STEP_NUM_TASKS"] = "1";
  CHECK(hosts_in(slurm) == std::vector<Host>{{"n1", 4}});
  slurm["SLURM_STEP_NUM_TASKS"] = "4";
  CHECK_THAT(find_in(slurm).status().message(), Catch::StartsWith("srun has started dabkerun 4 times"));
}

TEST_CASE("PBS gives a line for each slot") {
  const std::string path =
      std::filesystem::temp_directory_path() / fmt::format("dabke-nodefile-{}", ::getpid());
  std::ofstream(path) << "n1\nn1\nn2\nn1\n";
  const Variables pbs{{"PBS_JOBID", "12.pbs"}, {"PBS_NODEFILE", path}};
  CHECK(merge_hosts(hosts_in(pbs)) == std::vector<Host>{{"n1", 3}, {"n2", 1}});
  std::ofstream(path) << "n1\nn 2\n";
  CHECK_THAT(find_in(pbs).status().message(),
             Catch::StartsWith("PBS_NODEFILE " + path + " line 2: 'n 2' is not a host") &&
                 Catch::EndsWith("; or give the hosts and their slots with -H"));
  std::filesystem::remove(path);
  CHECK_THAT(find_in(pbs).status().message(), Catch::StartsWith("PBS_NODEFILE " + path + ": cannot read it"));
}

TEST_CASE("LSF gives a name for each slot, or names and slots in turn") {
  CHECK(merge_hosts(hosts_in({{"LSB_JOBID", "3"}, {"LSB_HOSTS", "n1 n1  n2"}})) ==
        std::vector<Host>{{"n1", 2}, {"n2", 1}});
  CHECK(hosts_in({{"LSB_JOBID", "3"}, {"LSB_MCPU_HOSTS", "n1 4 n2 2 "}}) ==
        std::vector<Host>{{"n1", 4}, {"n2", 2}});
  CHECK_THAT(
      find_in({{"LSB_JOBID", "3"}, {"LSB_MCPU_HOSTS", "n1 many"}}).status().message(),
      Catch::StartsWith("LSB_MCPU_HOSTS is 'n1 many', and 'n1:many' in it is not a host: give the hosts"));
  CHECK_THAT(find_in({{"LSB_JOBID", "3"}, {"LSB_HOSTS", " "}}).status().message(),
             Catch::StartsWith("LSB_HOSTS names no host"));
}

TEST_CASE("outside of a job of a batch system there is no allocation") {
  CHECK_FALSE(find_in({{"SLURM_JOB_NODELIST", "n1"}})->has_value());
  CHECK_FALSE(find_in({{"SLURM_JOB_ID", "7"}})->has_value());
}

}  // namespace dabke::test

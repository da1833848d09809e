#include "benchmarks/perf/jobs/jobs.h"

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace perf;
namespace {

const Launchers kAll{"/bin/dabkerun", "/bin/mpirun.mpich", "/bin/mpirun.openmpi"};
const Launchers kNoMpi{"/bin/dabkerun", "", ""};

Options options_with(std::vector<std::string> backends, std::vector<std::string> peers) {
  Options options;
  options.backends = std::move(backends);
  options.peers = std::move(peers);
  return options;
}

std::vector<std::string> names_of(const Result<std::vector<Job>>& jobs) {
  std::vector<std::string> names;
  for (const Job& job : *jobs) names.push_back(job.name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("where MPI plays no part there is one job, under dabkerun") {
  Options options = options_with({"shm", "gloo"}, {"memcpy"});
  options.ranks = 3;
  const auto jobs = plan_jobs(options, kAll);
  REQUIRE(names_of(jobs) == Names{"dabkerun"});
  CHECK(jobs->front().launcher.front() == "/bin/dabkerun");
  CHECK(std::ranges::count(jobs->front().launcher, "3") == 1);
}

TEST_CASE("each MPI has a job, and only the first measures whoever needs no MPI") {
  const auto jobs = plan_jobs(options_with({"shm", "gloo", "mpi"}, {"mpi", "gloo", "memcpy"}), kAll);
  REQUIRE(names_of(jobs) == Names{"mpich", "openmpi"});
  CHECK(jobs->front().backends == Names{"shm", "gloo", "mpi"});
  CHECK(jobs->front().peers == Names{"mpi", "gloo", "memcpy"});
  CHECK(jobs->back().backends == Names{"shm", "mpi"});  // shm: ratios are taken within a job
  CHECK(jobs->back().peers == Names{"mpi"});
}

TEST_CASE("one MPI is measured alone when it is named") {
  Options options = options_with({"shm"}, {"mpi"});
  options.mpi = "openmpi";
  CHECK(names_of(plan_jobs(options, kAll)) == Names{"openmpi"});
}

TEST_CASE("without any MPI the others are measured all the same") {
  const auto jobs = plan_jobs(options_with({"shm", "mpi"}, {"mpi", "memcpy"}), kNoMpi);
  REQUIRE(names_of(jobs) == Names{"dabkerun"});
  CHECK(jobs->front().backends == Names{"shm"});
  CHECK(jobs->front().peers == Names{"memcpy"});
}

TEST_CASE("what is missing is refused with the package that brings it") {
  Options options = options_with({"shm"}, {"mpi"});
  options.mpi = "mpich";
  const auto jobs = plan_jobs(options, kNoMpi);
  REQUIRE(!jobs);
  CHECK_THAT(jobs.status().message(), Catch::Contains("--mpi is 'mpich'") && Catch::Contains("libmpich-dev"));
  const auto only_mpi = plan_jobs(options_with({}, {"mpi"}), kNoMpi);
  REQUIRE(!only_mpi);
  CHECK_THAT(only_mpi.status().message(), Catch::Contains("openmpi-bin"));
  const auto no_launcher = plan_jobs(options_with({"shm"}, {}), {});
  REQUIRE(!no_launcher);
  CHECK_THAT(no_launcher.status().message(), Catch::Contains("dabkerun"));
}

}  // namespace dabke::test

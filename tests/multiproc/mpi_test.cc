// MPI from the outside: the launchers of both, and what they start.
#include <unistd.h>

#include <catch2/catch.hpp>

#include "runtime/transport/module_loader.h"
#include "tests/conformance/matrix.h"
#include "tests/multiproc/launcher_run.h"

namespace dabke {
namespace {

struct Mpi {
  std::string mpirun;
  std::string app;
  std::vector<std::string> flags = {};
};

/// The MPIs of this build.
std::vector<Mpi> mpis() {
  return {
#ifdef MPI_APP_MPICH
      {"mpirun.mpich", MPI_APP_MPICH},
#endif
#ifdef MPI_APP_OPENMPI
      {"mpirun.openmpi", MPI_APP_OPENMPI, {"--oversubscribe"}},
#endif
  };
}

Finished run_with(const Mpi& mpi, int ranks, const std::vector<std::string>& command,
                  std::vector<std::string> environment = {}) {
  std::vector<std::string> arguments = mpi.flags;
  arguments.insert(arguments.end(), {"-np", std::to_string(ranks)});
  arguments.insert(arguments.end(), command.begin(), command.end());
  environment.insert(environment.end(), {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                                         "DABKE_MODULE_PATH=" MODULE_PATH});
  return LauncherRun(arguments, {.program = mpi.mpirun, .environment = std::move(environment)}).finish();
}

/// "accuracy 93.1 %", without what the launcher puts before it.
std::string accuracy_in(const std::string& out) {
  const auto at = out.rfind("accuracy");
  return at == std::string::npos ? "none" : out.substr(at, out.find('\n', at) - at);
}

}  // namespace

TEST_CASE(
    "mpirun: every collective gives what arithmetic says, in one round and in many, and after a new init") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const int ranks = GENERATE(1, 2, 3, 4);
  const std::string round_bytes = GENERATE("8388608", "256");
  const Finished finished =
      run_with(mpi, ranks, {MPI_CONFORMANCE_WORKER, round_bytes}, {"DABKE_TEST_MATRIX=pairwise"});
  CAPTURE(mpi.mpirun, ranks, round_bytes, finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK_THAT(finished.out, Catch::Contains("cases passed"));
}

TEST_CASE("mpirun: a run that the other ranks never join ends with the cause of an abort") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const Finished finished = run_with(mpi, 2, {MPI_CONFORMANCE_WORKER, "abort"});
  CAPTURE(mpi.mpirun, finished.out, finished.error);
  CHECK_THAT(finished.out, Catch::Contains("aborted"));
}

TEST_CASE("mpirun: an application that has initialised MPI at any thread level keeps it") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const std::string level = GENERATE("single", "funneled", "serialized", "multiple");
  const Finished finished = run_with(mpi, 2, {mpi.app, level});
  CAPTURE(mpi.mpirun, level, finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK(lines_of(finished.out) == std::vector<std::string>{"well done"});
}

TEST_CASE("mpirun: MPI moves the data of an application with MPI_THREAD_MULTIPLE, and is refused below") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const std::string level = GENERATE("serialized", "multiple");
  const Finished finished = run_with(mpi, 2, {mpi.app, level}, {"DABKE_CPU_OPERATIONS=mpi"});
  CAPTURE(mpi.mpirun, level, finished.out, finished.error);
  if (level == "multiple") {
    CHECK(finished.exit_code == 0);
  } else {
    CHECK(finished.exit_code != 0);
    CHECK_THAT(finished.error, Catch::Contains("the application initialised MPI with MPI_THREAD_SERIALIZED"));
  }
}

TEST_CASE("dabkerun: MPI cannot move data, because it has not started the ranks") {
  const LauncherSetup setup{.environment = {"DABKE_CPU_OPERATIONS=mpi", "DABKE_MODULE_PATH=" MODULE_PATH}};
  const Finished finished = LauncherRun({"-np", "2", RANK_HELLO}, setup).finish();
  CAPTURE(finished.out, finished.error);
  CHECK(finished.exit_code != 0);
  CHECK_THAT(finished.error, Catch::Contains("MPI did not start this job") && Catch::Contains("mpirun"));
}

#ifdef DIGITS
TEST_CASE("mpirun: digits trains as under dabkerun, whatever moves the data") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const std::string data = GENERATE("auto", "mpi");
  const Finished alone = LauncherRun({"-np", "4", DIGITS, "--epochs", "2"}).finish();
  const Finished finished = run_with(mpi, 4, {DIGITS, "--epochs", "2"}, {"DABKE_CPU_OPERATIONS=" + data});
  CAPTURE(mpi.mpirun, data, finished.out, finished.error, alone.out, alone.error);
  CHECK(finished.exit_code == 0);
  CHECK(accuracy_in(alone.out) != "none");
  CHECK(accuracy_in(finished.out) == accuracy_in(alone.out));
}
#endif

TEST_CASE("a module of another build is refused with both build ids") {
  Config config;
  config.module_path = WRONG_MODULES;
  const auto table = load_module(config, "mpi-mpich");
  REQUIRE(!table);
  CHECK(table.status().code() == Code::mismatch);
  CHECK_THAT(table.status().message(), Catch::Contains("belongs to build 'another build'"));
}

TEST_CASE("where a module is missing the error names the Debian package") {
  const TemporaryDirectory empty;
  Config config;
  config.module_path = empty.path();
  const auto none = load_mpi(config, {});
  REQUIRE(!none);
  CHECK(none.status().code() == Code::not_built);
  CHECK_THAT(none.status().message(), Catch::Contains("libmpich-dev") && Catch::Contains("libopenmpi-dev"));
  const auto mpich = load_mpi(config, {.launcher = "mpi-mpich", .variable = "PMI_SIZE"});
  CHECK_THAT(mpich.status().message(), Catch::Contains("libmpich-dev") && !Catch::Contains("libopenmpi-dev"));
}

}  // namespace dabke

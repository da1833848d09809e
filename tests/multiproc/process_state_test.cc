// The traces of Dabke in the process that calls it: signals, the environment, forked children.
#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"

namespace dabke::test {
namespace {

/// A program that starts the ranks of a job.
struct Launcher {
  std::string program;  // empty: dabkerun
  std::vector<std::string> arguments = {};
};

std::vector<Launcher> launchers() {
  return {
      {"", {}},
#ifdef MPI_APP_MPICH
      {"mpirun.mpich", {}},
#endif
#ifdef MPI_APP_OPENMPI
      {"mpirun.openmpi", {"--oversubscribe"}},
#endif
  };
}

Finished run_with(const Launcher& launcher, int ranks, const std::string& what) {
  std::vector<std::string> arguments = launcher.arguments;
  arguments.insert(arguments.end(), {"-np", std::to_string(ranks), PROCESS_STATE, what});
  return LauncherRun(arguments,
                     {.program = launcher.program,
                      .environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                                      "DABKE_MODULE_PATH=" MODULE_PATH}})
      .finish();
}

int count_of(const std::string& text, const std::string& in) {
  int count = 0;
  for (auto at = in.find(text); at != std::string::npos; at = in.find(text, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("every signal is handled on every rank as it was before init, and after shutdown too") {
  const Launcher launcher = GENERATE(from_range(launchers()));
  const Finished finished = run_with(launcher, 3, "signals");
  CAPTURE(launcher.program, finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK(count_of("well done", finished.out) == 3);
}

TEST_CASE("two hundred rounds of init and shutdown leave no descriptor, thread or memory behind") {
  const Launcher launcher = GENERATE(from_range(launchers()));
  const Finished finished = run_with(launcher, 3, "rounds");
  CAPTURE(launcher.program, finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK(count_of("well done", finished.out) == 3);
}

TEST_CASE("init takes the job's key out of the environment, and a new init has it still") {
  const Finished finished = run_with({}, 2, "key");
  CAPTURE(finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK(count_of("well done", finished.out) == 2);
}

TEST_CASE("a program that a rank starts is told that it is not part of the job") {
  const Finished finished = run_with({}, 2, "exec");
  CAPTURE(finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK(count_of("well done", finished.out) == 2);
}

TEST_CASE("a child forked while another thread waits in init is told so and holds no socket") {
  const TemporaryDirectory directory;
  // The job's directory is named after the job's id.
  const std::string id(32, 'a'), job_key(64, 'b');
  const Finished finished =
      LauncherRun({"fork-in-init"},
                  {.program = PROCESS_STATE,
                   .environment = {"DABKE_RENDEZVOUS=file:" + directory.path(), "DABKE_JOB_ID=" + id,
                                   "DABKE_JOB_KEY=" + job_key,
                                   "HELLO=" + directory.path() + "/" + id + "/1/hello/0.value",
                                   "DABKE_START_TIMEOUT_SECONDS=20"}})
          .finish();
  CAPTURE(finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK(finished.out == "well done\n");
}

TEST_CASE("no child hangs that is forked at any moment of init and shutdown") {
  const Finished finished = LauncherRun({"fork"}, {.program = PROCESS_STATE}).finish();
  CAPTURE(finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK(finished.out == "well done\n");
}

}  // namespace dabke::test

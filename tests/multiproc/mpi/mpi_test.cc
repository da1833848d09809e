// MPI from the outside: the launchers of both implementations, and the ranks that they start.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "runtime/modules/module_loader.h"
#include "tests/conformance/matrix.h"
#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"

namespace dabke::test {
namespace {

struct Mpi {
  std::string mpirun;
  std::string app;
  std::string comm_app;
  std::vector<std::string> flags = {};
  std::string leaves_survivors;
};

/// The MPI implementations of this build.
std::vector<Mpi> mpis() {
  return {
#ifdef MPI_APP_MPICH
      {"mpirun.mpich", MPI_APP_MPICH, MPI_COMM_APP_MPICH, {}, "-disable-auto-cleanup"},
#endif
#ifdef MPI_APP_OPENMPI
      {"mpirun.openmpi", MPI_APP_OPENMPI, MPI_COMM_APP_OPENMPI, {"--oversubscribe"}, "--enable-recovery"},
#endif
  };
}

// With more ranks than cores, many rounds of a non-blocking collective take MPICH ten to twenty times as long
// as Open MPI. Another test may run in parallel.
constexpr std::chrono::seconds kLimit{300};

Finished run_with(const Mpi& mpi, int ranks, const std::vector<std::string>& command,
                  std::vector<std::string> environment = {}) {
  std::vector<std::string> arguments = mpi.flags;
  arguments.insert(arguments.end(), {"-np", std::to_string(ranks)});
  arguments.insert(arguments.end(), command.begin(), command.end());
  environment.insert(environment.end(), {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                                         "DABKE_MODULE_PATH=" MODULE_PATH});
  return LauncherRun(arguments, {.program = mpi.mpirun, .environment = std::move(environment)})
      .finish(kLimit);
}

/// Counts occurrences, not lines: the launchers merge the lines of several ranks.
int count_of(const std::string& text, const std::string& in) {
  int count = 0;
  for (auto at = in.find(text); at != std::string::npos; at = in.find(text, at + 1)) ++count;
  return count;
}

/// Returns "accuracy 93.1 %", without the launcher's prefix.
std::string accuracy_in(const std::string& out) {
  const auto at = out.rfind("accuracy");
  return at == std::string::npos ? "none" : out.substr(at, out.find('\n', at) - at);
}

}  // namespace

TEST_CASE(
    "mpirun: every collective gives what arithmetic says, in one round and in many, and after a new init") {
  const std::vector<Mpi> all_mpis = mpis();
  const std::pair<std::string, std::string> settings[] = {
      {"8388608", "auto"}, {"1024", "auto"}, {"8388608", "mpi"}};
  const auto row = GENERATE_COPY(from_range(
      test::choose_rows({static_cast<int>(all_mpis.size()), 4, static_cast<int>(std::size(settings))},
                        test::jobs_are_pairwise())));
  const Mpi& mpi = all_mpis[static_cast<std::size_t>(row[0])];
  const int ranks = 1 + row[1];
  const auto& [round_bytes, controller] = settings[row[2]];
  const Finished finished = run_with(mpi, ranks, {MPI_CONFORMANCE_WORKER, round_bytes},
                                     {"DABKE_TEST_MATRIX=pairwise", "DABKE_CONTROLLER=" + controller});
  CAPTURE(mpi.mpirun, ranks, round_bytes, controller, finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK_THAT(finished.out, Catch::Contains("cases passed"));
}

TEST_CASE("mpirun: between hosts of several ranks MPI moves data, and shared memory inside") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const int ranks = GENERATE(3, 4);
  const Finished finished =
      run_with(mpi, ranks, {MPI_CONFORMANCE_WORKER, "hosts"},
               {"DABKE_TEST_MATRIX=pairwise", "DABKE_CPU_OPERATIONS=mpi", "DABKE_PROFILE=1"});
  CAPTURE(mpi.mpirun, ranks, finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK_THAT(finished.out, Catch::Contains("cases passed"));
  CHECK_THAT(finished.out + finished.error, Catch::Contains("hierarchical"));
}

TEST_CASE("mpirun: a run that the other ranks never join ends with the cause of an abort") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const Finished finished = run_with(mpi, 2, {MPI_CONFORMANCE_WORKER, "abort"});
  CAPTURE(mpi.mpirun, finished.out, finished.error);
  CHECK_THAT(finished.out, Catch::Contains("aborted"));
}

TEST_CASE("mpirun: ranks that bring different batches end with an error that names both") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const std::string elements = GENERATE("3", "30000");
  const Finished finished = run_with(mpi, 2, {MPI_CONFORMANCE_WORKER, "different", elements});
  CAPTURE(mpi.mpirun, elements, finished.out, finished.error);
  CHECK_THAT(finished.out, !Catch::Contains("it ended well"));
  CHECK_THAT(finished.out, Catch::Contains("the ranks are out of step") && Catch::Contains("2 tensors of") &&
                               Catch::Contains("1 tensor of") && Catch::Contains("in order 5"));
}

TEST_CASE("mpirun: an application that has initialised MPI at any thread level keeps it") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const std::string level = GENERATE("single", "funneled", "serialized", "multiple");
  const Finished finished = run_with(mpi, 2, {mpi.app, level});
  CAPTURE(mpi.mpirun, level, finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK(lines_of(finished.out) == std::vector<std::string>{"well done"});
}

TEST_CASE("mpirun: registered memory grows between MPI's own collectives, as root and as an ordinary user") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const bool is_ordinary = GENERATE(false, true);
  const int ranks = GENERATE(2, 3);
  std::vector<std::string> command = {mpi.app, "registered"};
  // An ordinary user has no capabilities. A test runner that is an ordinary user cannot have any, and need
  // not drop them.
  if (is_ordinary && ::geteuid() == 0)
    command.insert(command.begin(), {"setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"});
  const Finished finished = run_with(mpi, ranks, command);
  CAPTURE(mpi.mpirun, is_ordinary, ranks, finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK(lines_of(finished.out) == std::vector<std::string>{"well done"});
  CHECK_THAT(finished.error,
             !Catch::Contains("registered memory is copied"));  // all registered memory was mapped
}

TEST_CASE("mpirun: one warning, of rank 0, says that below MPI_THREAD_MULTIPLE MPI only starts the job") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const std::string level = GENERATE("single", "serialized", "multiple");
  const Finished finished = run_with(mpi, 3, {mpi.app, level});  // two inits
  CAPTURE(mpi.mpirun, level, finished.out, finished.error);
  std::string warnings;
  for (const std::string& line : lines_of(finished.error)) {
    if (line.find("dabke rank") != std::string::npos) warnings += line + "\n";
  }
  if (level == "multiple") {
    CHECK(warnings == "");
  } else {
    CHECK(lines_of(warnings).size() == 1);
    CHECK_THAT(warnings,
               Catch::Contains("rank 0 warning") && Catch::Contains("neither negotiates nor moves") &&
                   Catch::Contains(level == "single" ? "MPI_THREAD_SINGLE" : "MPI_THREAD_SERIALIZED") &&
                   Catch::Contains("call MPI_Init_thread with MPI_THREAD_MULTIPLE"));
  }
}

TEST_CASE("mpirun: MPI serves an application with MPI_THREAD_MULTIPLE, and is refused below") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const std::string level = GENERATE("serialized", "multiple");
  const std::string setting = GENERATE("DABKE_CPU_OPERATIONS=mpi", "DABKE_CONTROLLER=mpi");
  const Finished finished = run_with(mpi, 2, {mpi.app, level}, {setting});
  CAPTURE(mpi.mpirun, level, setting, finished.out, finished.error);
  if (level == "multiple") {
    CHECK(finished.exit_code == 0);
  } else {
    CHECK(finished.exit_code != 0);
    CHECK_THAT(finished.error,
               Catch::Contains(setting + ": the application initialised MPI with MPI_THREAD_SERIALIZED") &&
                   Catch::Contains("call MPI_Init_thread with MPI_THREAD_MULTIPLE"));
  }
}

TEST_CASE("mpirun: a communicator makes a job of its processes in its order, again and again") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const std::string controller = GENERATE("auto", "mpi");
  const int ranks = GENERATE(2, 4);
  // The variables, as dabkerun would set them, are about another job.
  const Finished finished = run_with(mpi, ranks, {mpi.comm_app, "subset"},
                                     {"DABKE_CONTROLLER=" + controller, "DABKE_RANK=7", "DABKE_SIZE=9"});
  CAPTURE(mpi.mpirun, controller, ranks, finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK(lines_of(finished.out) == std::vector<std::string>{"well done"});
}

TEST_CASE("mpirun: a communicator that makes no job is refused with the remedy") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const auto [what, error] = GENERATE(table<std::string, std::string>(
      {{"early", "MPI is not initialised; call MPI_Init_thread before"},
       {"null",
        "mpi_comm is MPI_COMM_NULL, so this process is not in the communicator; let only its members"},
       {"inter",
        "intercommunicator, in which a process has no unique rank; pass the result of MPI_Intercomm_merge"},
       {"late", "MPI_Finalize has been called; call dabke_init before"}}));
  const Finished finished = run_with(mpi, 2, {mpi.comm_app, what});
  CAPTURE(mpi.mpirun, what, finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK(count_of(error, finished.out) == 2);  // one from each rank
}

TEST_CASE("mpirun: MPI carries messages that are longer than it takes without the receiver's help") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const Finished finished = run_with(mpi, 3, {RANK_WORKER, "names"}, {"DABKE_CONTROLLER=mpi"});
  CAPTURE(mpi.mpirun, finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK(count_of("names are right", finished.out) == 3);
}

TEST_CASE("mpirun: a rank that idles with MPI as its controller sleeps through a whole second") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const Finished finished =
      run_with(mpi, 2, {RANK_WORKER, "idle"}, {"DABKE_CONTROLLER=mpi", "DABKE_CPU_OPERATIONS=mpi"});
  CAPTURE(mpi.mpirun, finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK(count_of("idle", finished.out) == 2);
}

TEST_CASE("mpirun: survivors of a killed rank name it where the launcher leaves them alive") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const TemporaryDirectory place;
  // The ranks write to files, because MPICH's launcher does not print all output of survivors. It also sends
  // them SIGUSR1 when another rank has ended.
  constexpr const char* kScript =
      "trap '' USR1; said=\"$1/${PMI_RANK:-$OMPI_COMM_WORLD_RANK}\"; \"$0\" killed >\"$said\" 2>&1; "
      "echo ended >>\"$said\"";
  Mpi lenient = mpi;
  lenient.flags.push_back(mpi.leaves_survivors);
  const Finished finished =
      run_with(lenient, 3, {"sh", "-c", kScript, RANK_WORKER, place.path()}, {"DABKE_CONTROLLER=mpi"});
  CAPTURE(mpi.mpirun, finished.out, finished.error);
  for (const std::string rank : {"0", "1"}) {
    const std::string said = place.text_of(rank);
    CHECK_THAT(said, Catch::Contains("error peer_lost") && Catch::Contains("rank 2 on ") &&
                         Catch::Contains("ended"));
  }
  CHECK_THAT(place.text_of("2"), !Catch::Contains("waiting"));
}

TEST_CASE("dabkerun: MPI can neither move data nor negotiate, because it has not started the ranks") {
  const std::string what = GENERATE("DABKE_CPU_OPERATIONS=mpi", "DABKE_CONTROLLER=mpi");
  const LauncherSetup setup{.environment = {what, "DABKE_MODULE_PATH=" MODULE_PATH}};
  const Finished finished = LauncherRun({"-np", "2", RANK_HELLO}, setup).finish();
  CAPTURE(finished.out, finished.error);
  CHECK(finished.exit_code != 0);
  CHECK_THAT(finished.error,
             Catch::Contains(what + ": MPI did not start this job") && Catch::Contains("mpirun"));
}

TEST_CASE("mpirun: a job within a step of Slurm, or that sets what torchrun sets, is the job of MPI") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const std::vector<std::string> step{"SLURM_STEP_ID=0", "SLURM_NTASKS=1", "SLURM_STEP_NUM_TASKS=1",
                                      "SLURM_PROCID=0"};
  const std::vector<std::string> torch{"WORLD_SIZE=2", "RANK=0", "MASTER_ADDR=127.0.0.1"};
  const Finished finished = run_with(mpi, 2, {RANK_HELLO}, GENERATE_COPY(step, torch));
  CAPTURE(mpi.mpirun, finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK(count_of("of 2: the sum is 3", finished.out) == 2);
}

TEST_CASE(
    "mpirun: MPI_Finalize before dabke_shutdown ends a job that uses MPI with that cause, and no process") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const std::string uses = GENERATE("DABKE_CONTROLLER=mpi", "DABKE_CPU_OPERATIONS=mpi");
  const Finished finished = run_with(mpi, 3, {mpi.app, "multiple", "finalize"}, {uses});
  CAPTURE(mpi.mpirun, uses, finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  const std::string cause = "called MPI_Finalize before dabke_shutdown, in a job that uses MPI (" + uses +
                            "); call dabke_shutdown first";
  CHECK_THAT(finished.error, Catch::Contains("rank 0 " + cause));
  for (const std::string rank : {"1", "2"})
    CHECK_THAT(finished.out, Catch::Contains("rank " + rank + " while others finalize: aborted: ") &&
                                 Catch::Contains("rank 0 " + cause));
  for (const std::string rank : {"0", "1", "2"}) {
    CHECK_THAT(finished.out, Catch::Contains("rank " + rank + " after: aborted: "));
    CHECK_THAT(finished.out, Catch::Contains("rank " + rank + " again: "));
  }
}

TEST_CASE("mpirun: a job that MPI only started goes on after MPI_Finalize") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const Finished finished = run_with(mpi, 1, {mpi.app, "multiple", "finalize"});
  CAPTURE(mpi.mpirun, finished.out, finished.error);
  CHECK(finished.exit_code == 0);
  CHECK_THAT(finished.out, Catch::Contains("rank 0 after: ok"));
}

TEST_CASE("mpirun: several processes of torchrun in one rank of MPI are refused") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  const Finished finished =
      run_with(mpi, 1, {RANK_HELLO}, {"WORLD_SIZE=2", "RANK=1", "MASTER_ADDR=127.0.0.1"});
  CAPTURE(mpi.mpirun, finished.out, finished.error);
  CHECK(finished.exit_code != 0);
  CHECK_THAT(finished.error, Catch::Contains("one of 2 (WORLD_SIZE is 2 and RANK is 1)"));
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

TEST_CASE(
    "dabkerun --launcher mpi: mpirun starts the ranks, which get flags and variables, and its exit code is "
    "ours") {
  const Mpi mpi = GENERATE(from_range(mpis()));
  // The mpirun that is found in PATH.
  const TemporaryDirectory place;
  const std::string script = place.path() + "/mpirun";
  std::ofstream(script) << "#!/bin/sh\nexec " << mpi.mpirun << " \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const std::string path = "PATH=" + place.path() + ":" + std::getenv("PATH");
  const std::vector<std::string> environment{path, "OMPI_ALLOW_RUN_AS_ROOT=1",
                                             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OF_MINE=a b",
                                             "DABKE_MODULE_PATH=" MODULE_PATH};
  const auto run = [&](const std::vector<std::string>& command) {
    std::vector<std::string> words{"--launcher", "mpi", "-np", "2", "--cycle-time-ms", "2"};
    words.insert(words.end(), command.begin(), command.end());
    return LauncherRun(words, {.environment = environment}).finish(kLimit);
  };
  const Finished sum = run({RANK_HELLO});
  CAPTURE(mpi.mpirun, sum.out, sum.error);
  CHECK(sum.exit_code == 0);
  CHECK(count_of("of 2: the sum is 3", sum.out) == 2);
  const Finished told = run({"sh", "-c", "echo \"told $OF_MINE $DABKE_CYCLE_TIME\"; exit 7"});
  CAPTURE(told.out, told.error);
  CHECK(count_of("told a b 2", told.out) >= 1);  // Open MPI ends the other rank as the first fails
  CHECK(told.exit_code == 7);
  const Finished refused = run({"--output-filename", "x", "true"});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.error,
             Catch::StartsWith(
                 "dabkerun: --output-filename: not supported with --launcher mpi, because mpirun of "));
  const Finished dry = run({"--dry-run", "true"});
  CHECK_THAT(dry.out, Catch::StartsWith("Nothing is started. It would be:\nmpirun -np 2 ") &&
                          Catch::EndsWith(" true\n"));
}

TEST_CASE("a module of another build is refused with both build ids") {
  Config config;
  config.module_path = WRONG_MODULES;
  const auto table = modules::load_module(config, "mpi-mpich");
  REQUIRE(!table);
  CHECK(table.status().code() == Code::mismatch);
  CHECK_THAT(table.status().message(), Catch::Contains("belongs to build 'another build'"));
}

TEST_CASE("where a module is missing the error names the Debian package") {
  const TemporaryDirectory empty;
  Config config;
  config.module_path = empty.path();
  const auto none = modules::load_mpi(config, {});
  REQUIRE(!none);
  CHECK(none.status().code() == Code::not_built);
  CHECK_THAT(none.status().message(), Catch::Contains("libmpich-dev") && Catch::Contains("libopenmpi-dev"));
  const auto mpich = modules::load_mpi(config, {.launcher = "mpi-mpich", .variable = "PMI_SIZE"});
  CHECK_THAT(mpich.status().message(), Catch::Contains("libmpich-dev") && !Catch::Contains("libopenmpi-dev"));
}

}  // namespace dabke::test

// The environment of ranks of the real dabkerun: hosts, variables, stdin, descriptors and signals.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

using Catch::StartsWith;
using test::kPatience;
using Words = std::vector<std::string>;

const std::string kWorker = LAUNCHER_WORKER;

Finished run(const Words& arguments, const LauncherSetup& setup = {}) {
  return LauncherRun(arguments, setup).finish();
}

/// The CPU time of the children that have ended.
double cpu_seconds_of_children() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace

TEST_CASE("ranks get dabkerun's variables, those of -x, and what is theirs alone") {
  const Finished job = run({"-np", "2", "-x", "A=b c\nd", "-x", "MODE=slow", "-x", "MODE@1=fast",
                            "--no-prefix", "sh", "-c", "echo \"$DABKE_RANK $MODE $A $INHERITED\""},
                           {.environment = {"INHERITED=yes", "A=old"}});
  CHECK(job.exit_code == 0);
  CHECK(sorted_lines(job.out) == Words{"0 slow b c", "1 fast b c", "d yes", "d yes"});
  CHECK_THAT(run({"-np", "2", "-x", "A@2=1", "true"}).error,
             StartsWith("dabkerun: -x A@2: the job has no rank 2"));
}

TEST_CASE("names that lead to one machine are one host, with the ranks of all, and dabkerun says so") {
  const TemporaryDirectory directory;
  const Finished job =
      run({"-H", "localhost:1,one.invalid:2,other.invalid:1", "--remote-shell", make_remote_shell(directory),
           "--no-prefix", "sh", "-c",
           "echo $DABKE_RANK: $DABKE_LOCAL_RANK/$DABKE_LOCAL_SIZE $DABKE_CROSS_RANK/$DABKE_CROSS_SIZE "
           "$DABKE_HOSTNAME"});
  CHECK(job.exit_code == 0);
  CHECK(job.error ==
        "dabkerun: localhost, one.invalid, other.invalid are one machine, so they count as one host, "
        "localhost\n");
  CHECK(sorted_lines(job.out) == Words{"0: 0/4 0/1 localhost", "1: 1/4 0/1 localhost", "2: 2/4 0/1 localhost",
                                       "3: 3/4 0/1 localhost"});
  const Finished here = run({"-H", "localhost:1,127.0.0.1:1", "true"});
  CHECK(here.exit_code == 0);
  CHECK(here.error ==
        "dabkerun: localhost, 127.0.0.1 are one machine, so they count as one host, localhost\n");
}

TEST_CASE("a host file with a byte order mark, or with 10 MB of hosts that are not used, is read at once") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/hosts";
  std::ofstream file(path, std::ios::binary);
  file << "\xEF\xBB\xBFlocalhost slots=1\r\nlocalhost slots=1\n";
  for (int i = 0; i < 600'000; ++i) file << "unused" << i << ".invalid\n";
  file.close();
  const double before = cpu_seconds_of_children();
  const Finished job = run({"-np", "2", "--hostfile", path, "--no-prefix", "printenv", "DABKE_LOCAL_SIZE"});
  CHECK(job.error.empty());
  CHECK(job.out == "2\n2\n");
  // CPU time, not wall time: a busy machine does other things meanwhile.
  CHECK(cpu_seconds_of_children() - before < static_cast<double>(kPatience.count()));
}

TEST_CASE("in a job of a batch system its hosts and slots are those of the job") {
  const Finished job =
      LauncherRun({"sh", "-c", "echo $DABKE_RANK of $DABKE_SIZE"},
                  {.environment = {"LSB_JOBID=12", "LSB_HOSTS=localhost localhost localhost"}})
          .finish();
  CHECK(job.exit_code == 0);
  CHECK(sorted_lines(job.out) == Words{"[0]<stdout>:0 of 3", "[1]<stdout>:1 of 3", "[2]<stdout>:2 of 3"});
  CHECK(job.error ==
        "dabkerun: LSF job 12: 1 host, 3 slots; ssh starts dabkerun on other hosts (--launcher)\n");
  const Finished none = run({"true"});
  CHECK(none.exit_code == 2);
  CHECK(none.error == "dabkerun: -np is missing: give the number of ranks, as in dabkerun -np 2 ./train\n");
}

TEST_CASE("rank 0 reads stdin, or nobody does") {
  const LauncherSetup setup{.input = "one\ntwo\n"};
  CHECK(run({"-np", "2", "cat"}, setup).out == "[0]<stdout>:one\n[0]<stdout>:two\n");
  CHECK(run({"-np", "2", "--stdin", "none", "cat"}, setup).out.empty());
}

TEST_CASE(
    "flags of knobs and the place of each rank arrive as environment variables, and little else changes") {
  const Finished job =
      run({"-np", "2", "-H", "localhost:4", "--no-prefix", "--output-filename", "/dev/null/no", "true"});
  CHECK(job.exit_code == 2);
  const Finished environment = run({"-np", "1", "-H", "localhost:4", "--no-prefix", "--cycle-time-ms", "3.5",
                                    "--no-stall-check", "--fusion-threshold-mb", "64", "env"},
                                   {.environment = {"OMP_NUM_THREADS=3", "DABKE_LOG_LEVEL=info"}});
  std::map<std::string, std::string> seen;
  for (const std::string& line : lines_of(environment.out))
    seen[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
  CHECK(seen["DABKE_CYCLE_TIME"] == "3.5");
  CHECK(seen["DABKE_STALL_CHECK_DISABLE"] == "1");
  CHECK(seen["DABKE_FUSION_THRESHOLD"] == "67108864");
  CHECK(seen["DABKE_LOG_LEVEL"] == "info");
  CHECK(seen["OMP_NUM_THREADS"] == "3");
  CHECK(seen["PYTHONUNBUFFERED"] == "1");
  CHECK(seen["DABKE_HOSTNAME"] == "localhost");
  CHECK_THAT(seen["DABKE_RENDEZVOUS"], Catch::Matches("http://127\\.0\\.0\\.1:[0-9]+"));
  CHECK_THAT(seen["DABKE_JOB_ID"], Catch::Matches("[0-9a-f]{32}"));
  CHECK_THAT(seen["DABKE_JOB_KEY"], Catch::Matches("[0-9a-f]{64}"));
  for (const std::string prefix : {"DABKE_", "HOROVOD_"}) {
    for (const char* name : {"RANK", "LOCAL_RANK", "CROSS_RANK"}) CHECK(seen[prefix + name] == "0");
    for (const char* name : {"SIZE", "LOCAL_SIZE", "CROSS_SIZE"}) CHECK(seen[prefix + name] == "1");
  }
}

TEST_CASE("a rank gets descriptors 0, 1 and 2 alone, and the signals as dabkerun found them") {
  const Finished descriptors = run({"-np", "3", "--no-prefix", kWorker, "descriptors"});
  CHECK(lines_of(descriptors.out) == Words{"0 1 2 ", "0 1 2 ", "0 1 2 "});
  CHECK(run({"-np", "1", "--no-prefix", kWorker, "signals"}).out == "done\n");
  CHECK(run({"-np", "1", "--no-prefix", kWorker, "signals"}, {.ignored_signals = {SIGHUP}}).out ==
        "ignored 1\ndone\n");
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(run({"-np", "1", "--no-prefix", "sh", "-c", "ulimit -Sn"}).out ==
        std::to_string(limit.rlim_cur) + "\n");
}

TEST_CASE("a shell that ignores SIGCHLD does not keep dabkerun from seeing its ranks end") {
  const Finished job =
      run({"-np", "2", "--no-prefix", kWorker, "signals"}, {.ignored_signals = {SIGCHLD, SIGXFSZ}});
  CHECK(job.exit_code == 0);
  const std::string ignored =
      "ignored " + std::to_string(SIGCHLD) + "\nignored " + std::to_string(SIGXFSZ) + "\ndone\n";
  CHECK(sorted_lines(job.out) == sorted_lines(ignored + ignored));
}

TEST_CASE("the job's key is on no command line") {
  const Finished job =
      run({"-np", "1", "sh", "-c",
           "echo $DABKE_JOB_KEY | grep -l -a -f - /proc/[0-9]*/cmdline 2>/dev/null; echo done"});
  CHECK(job.out == "[0]<stdout>:done\n");
}

}  // namespace dabke::test

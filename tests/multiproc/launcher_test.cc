// The real dabkerun with real processes.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include <catch2/catch.hpp>

#include "launcher_run.h"
#include "tests/facts.h"
#include "tests/patience.h"
#include "tests/skip.h"

namespace dabke {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;
using test::kPatience;
using Words = std::vector<std::string>;

const std::string kWorker = LAUNCHER_WORKER;

Finished run(const Words& arguments, const LauncherSetup& setup = {}) {
  return LauncherRun(arguments, setup).finish();
}

std::vector<std::string> sorted_lines(const std::string& text) {
  auto lines = lines_of(text);
  std::ranges::sort(lines);
  return lines;
}

}  // namespace

TEST_CASE("a job whose ranks succeed returns 0 and says nothing of its own") {
  const Finished job = run({"-np", "4", "true"});
  CHECK(job.exit_code == 0);
  CHECK(job.out.empty());
  CHECK(job.error.empty());
  CHECK(job.took < kPatience);
}

TEST_CASE("the exit code of the first rank that fails is that of dabkerun, and the last line names it") {
  const Finished job = run({"-np", "3", kWorker, "exit", "2", "7"});
  CHECK(job.exit_code == 7);
  const auto lines = lines_of(job.error);
  REQUIRE(lines.size() == 3);
  CHECK_THAT(lines[0], StartsWith("dabkerun: rank 2 on host "));
  CHECK_THAT(lines[0], EndsWith(" exited with status code 7; ending the other ranks"));
  CHECK_THAT(
      lines[1],
      StartsWith("dabkerun: first failure: rank 2 on host ") && Contains("(pid ") &&
          EndsWith("exited with status code 7: the program reported an error; look for its last lines, "
                   "marked [2]"));
  CHECK(lines[2] == "dabkerun: after that: ranks 0-1 ended by dabkerun");
  CHECK(job.took < kPatience);
}

TEST_CASE(
    "a failed job ends with the last lines of the rank that failed first, then how it and the others ended") {
  const Finished job = run({"-np", "2", "sh", "-c",
                            "test $DABKE_RANK = 0 && exec sleep 60; seq 20; echo it is broken >&2; exit 3"});
  CHECK(job.exit_code == 3);
  const auto lines = lines_of(job.error);
  REQUIRE(lines.size() >= 4);
  CHECK(std::ranges::count(lines, "dabkerun: the last lines that rank 1 wrote:") == 1);
  CHECK(std::ranges::count(lines, "dabkerun: | 20") == 1);
  CHECK(std::ranges::count(lines, "dabkerun: | it is broken") == 1);
  CHECK(std::ranges::count(lines, "dabkerun: | 1") == 0);  // ten are kept
  CHECK_THAT(lines[lines.size() - 2], StartsWith("dabkerun: first failure: rank 1 on host "));
  CHECK(lines.back() == "dabkerun: after that: rank 0 ended by dabkerun");
}

TEST_CASE(
    "a rank killed by a signal is reported with the signal's name, and dabkerun returns 128 and the signal") {
  struct Example {
    int signal;
    std::string name;
  };
  const auto example =
      GENERATE(Example{SIGKILL, "SIGKILL (signal 9"}, Example{SIGSEGV, "SIGSEGV (signal 11"},
               Example{SIGTERM, "SIGTERM (signal 15"}, Example{SIGABRT, "SIGABRT (signal 6"});
  const Finished job = run({"-np", "2", kWorker, "raise", "1", std::to_string(example.signal)});
  CHECK(job.exit_code == 128 + example.signal);
  CHECK_THAT(job.error, Contains("first failure: rank 1 ") && Contains("was killed by " + example.name));
}

TEST_CASE("kill -9 of a rank from outside ends the job, which names that rank and leaves nothing running") {
  const TemporaryDirectory directory;
  LauncherRun launcher({"-np", "3", kWorker, "sleep", directory.path()});
  REQUIRE(launcher.wait_for_output("ready", 3));
  ::kill(directory.pid_in("1"), SIGKILL);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 137);
  CHECK_THAT(job.error, Contains("first failure: rank 1 ") && Contains("SIGKILL"));
  for (const char* rank : {"0", "1", "2"}) CHECK(is_gone(directory.pid_in(rank)));
}

TEST_CASE("how a rank ended is known, also when its supervisor goes with commands that it has not read") {
  const TemporaryDirectory directory;
  LauncherRun launcher({"-np", "2", kWorker, "sleep", directory.path()}, {.one_output = true});
  REQUIRE(launcher.wait_for_output("ready", 2));
  const pid_t rank = directory.pid_in("1"), supervisor = parent_of(rank);
  ::kill(supervisor, SIGSTOP);
  ::kill(rank, SIGUSR1);
  ::kill(directory.pid_in("0"), SIGUSR1);
  REQUIRE(launcher.wait_for_output("ending the other ranks"));
  launcher.signal(SIGINT);
  REQUIRE(launcher.wait_for_output("killing the ranks that still run"));
  REQUIRE(is_gone_within(rank, 5s));
  // It reads one of the two commands, finds that the rank has ended, says so and is gone before dabkerun
  // listens again.
  launcher.signal(SIGSTOP);
  ::kill(supervisor, SIGCONT);
  CHECK(is_gone_within(supervisor, 5s));
  launcher.signal(SIGCONT);
  const Finished job = launcher.finish();
  CAPTURE(job.out);
  CHECK(job.exit_code == 128 + SIGUSR1);
  CHECK_THAT(job.out, Contains("after that: rank 1 was killed by SIGUSR1"));
}

TEST_CASE("a rank that does not end on SIGTERM is killed after 4 s") {
  const TemporaryDirectory directory;
  const Finished job = run({"-np", "2", kWorker, "deaf", "0", directory.path()});
  CHECK(job.exit_code == 4);
  CHECK(job.took > 3500ms);
  CHECK(job.took < kPatience);
  CHECK_THAT(job.error, Contains("rank 1 killed by dabkerun, not having ended on SIGTERM"));
}

TEST_CASE("the grace period is what ranks get between SIGTERM and SIGKILL, and none is none") {
  const TemporaryDirectory directory;
  const Finished job = run({"-np", "2", "--grace-period", "0", kWorker, "deaf", "0", directory.path()});
  CHECK(job.exit_code == 4);
  CHECK(job.took < 3500ms);
  CHECK_THAT(job.error, Contains("rank 1 killed by dabkerun"));
}

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
  const std::string shell = directory.path() + "/shell";
  std::ofstream(shell) << "#!/bin/sh\nshift\nexec sh -c \"$*\"\n";
  std::filesystem::permissions(shell, std::filesystem::perms::owner_all);
  const Finished job = run(
      {"-H", "localhost:1,one.invalid:2,other.invalid:1", "--remote-shell", shell, "--no-prefix", "sh", "-c",
       "echo $DABKE_RANK: $DABKE_LOCAL_RANK/$DABKE_LOCAL_SIZE $DABKE_CROSS_RANK/$DABKE_CROSS_SIZE "
       "$DABKE_HOSTNAME"});
  CHECK(job.exit_code == 0);
  CHECK(job.error ==
        "dabkerun: localhost, one.invalid, other.invalid are one machine, so their ranks are those of one "
        "host, localhost\n");
  CHECK(sorted_lines(job.out) == Words{"0: 0/4 0/1 localhost", "1: 1/4 0/1 localhost", "2: 2/4 0/1 localhost",
                                       "3: 3/4 0/1 localhost"});
}

TEST_CASE("an agent of another version is named with both, and no rank is started") {
  const TemporaryDirectory directory;
  const std::string shell = directory.path() + "/shell";
  // Every version has greeted so, and reads what it is told.
  std::ofstream(shell)
      << "#!/bin/sh\necho greetings; printf '\\ndabke-agent 0.0.1/1 x\\n'; cat > /dev/null\n";
  std::filesystem::permissions(shell, std::filesystem::perms::owner_all);
  const Finished job = run({"-H", "old:1", "--remote-shell", shell, "true"});
  CHECK(job.exit_code == 1);
  CHECK_THAT(lines_of(job.error).front(),
             StartsWith("dabkerun: host old: the dabkerun there is of version 0.0.1/1, and this one of ") &&
                 Contains("--remote-dabkerun"));
  CHECK(lines_of(job.error).at(1) == "dabkerun:   greetings");
}

TEST_CASE("a command that cannot be run fails before anything is started, with the code of a shell") {
  CHECK(run({"-np", "2", "no-such-program"}).exit_code == 127);
  const Finished job = run({"-np", "2", "/etc/passwd"});
  CHECK(job.exit_code == 126);
  CHECK_THAT(job.error, StartsWith("dabkerun: cannot run '/etc/passwd': it is not executable"));
  CHECK(lines_of(job.error).size() == 1);
}

TEST_CASE("a script whose interpreter is missing is reported as not started") {
  const TemporaryDirectory directory;
  const std::string script = directory.path() + "/script";
  std::FILE* file = std::fopen(script.c_str(), "w");
  REQUIRE(file != nullptr);
  std::fputs("#!/no/such/interpreter\n", file);
  std::fclose(file);
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const Finished job = run({"-np", "2", script});
  CHECK(job.exit_code == 127);
  CHECK_THAT(
      job.error,
      Contains("could not be started: No such file or directory: the file is there, so the interpreter in "
               "its first line is missing"));
}

TEST_CASE("a wrong command line gives one line and exit code 2") {
  for (const Words& words :
       {Words{"-np", "0", "true"}, Words{"-np", "2"}, Words{"--no-such-flag", "true"},
        Words{"-np", "1", "--cycle-time-ms", "x", "true"}, Words{"-np", "2", "-H", "localhost:1", "true"},
        Words{"-np", "2", "-H", "me@localhost:2", "true"}}) {
    const Finished job = run(words);
    CAPTURE(job.error);
    CHECK(job.exit_code == 2);
    CHECK(job.out.empty());
    CHECK_THAT(job.error, StartsWith("dabkerun: ") && EndsWith("\n"));
    CHECK(lines_of(job.error).size() == 1);
  }
}

TEST_CASE("what is wrong with hosts, slots and variables is said in one line, before anything is started") {
  const TemporaryDirectory directory;
  const auto file = [&](const std::string& name, const std::string& text) {
    std::ofstream(directory.path() + "/" + name, std::ios::binary) << text;
    return directory.path() + "/" + name;
  };
  const std::string many(std::size_t{10} << 20, '#');
  const std::string bad = file("bad", "\xEF\xBB\xBFlocalhost slots=1\n" + many + "\nlocalhost slots=many\n");
  const std::string empty = file("empty", "# none\n");
  const std::pair<Words, std::string> cases[] = {
      {{"-H", "a:0"}, "-H a:0: 'a:0' is not a host: expected name:slots"},
      {{"-H", "a:1,,b"}, "-H a:1,,b: '' is not a host: expected name:slots"},
      {{"-H", "n[1-3"}, "-H n[1-3: 'n[1-3' is not a host"},
      {{"-np", "3", "-H", "localhost:2"},
       "-np 3 asks for more processes than localhost:2 has slots (2): lower -np"},
      {{"--hostfile", "/nowhere/f"}, "--hostfile /nowhere/f: cannot read it: No such file"},
      {{"--hostfile", bad}, "--hostfile " + bad + " line 3: 'localhost slots=many' is not a host"},
      {{"--hostfile", empty}, "--hostfile " + empty + " names no host"},
      {{"-np", "1", "-x", "NO_SUCH_VARIABLE"}, "-x NO_SUCH_VARIABLE: dabkerun has no such variable: set it"},
      {{"-np", "1", "-x", "A@1=2"}, "-x A@1: the job has no rank 1"},
  };
  for (auto [words, line] : cases) {
    words.insert(words.end(), {"touch", directory.path() + "/started"});
    const Finished job = run(words);
    CAPTURE(job.error, line);
    CHECK(job.exit_code == 2);
    CHECK_THAT(job.error, StartsWith("dabkerun: " + line));
    CHECK(lines_of(job.error).size() == 1);
  }
  CHECK_FALSE(std::filesystem::exists(directory.path() + "/started"));
}

TEST_CASE("a host file with a byte order mark, or with 10 MB of hosts that are not used, is read at once") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/hosts";
  std::ofstream file(path, std::ios::binary);
  file << "\xEF\xBB\xBFlocalhost slots=1\r\nlocalhost slots=1\n";
  for (int i = 0; i < 600'000; ++i) file << "unused" << i << ".invalid\n";
  file.close();
  const Finished job = run({"-np", "2", "--hostfile", path, "--no-prefix", "printenv", "DABKE_LOCAL_SIZE"});
  CHECK(job.error.empty());
  CHECK(job.out == "2\n2\n");
  CHECK(job.took < kPatience);
}

TEST_CASE("a host that does not come in time is named, with what to do") {
  const TemporaryDirectory directory;
  const std::string shell = directory.path() + "/shell";
  std::ofstream(shell) << "#!/bin/sh\nexec sleep 1000\n";
  std::filesystem::permissions(shell, std::filesystem::perms::owner_all);
  const Finished job = run({"-H", "slow:1", "--remote-shell", shell, "--start-timeout", "0.3", "true"});
  CHECK(job.exit_code == 1);
  CHECK_THAT(job.error,
             StartsWith("dabkerun: host slow: not ready after 0.3 s (--start-timeout): check that it is up"));
}

TEST_CASE("what asks for information needs no command") {
  CHECK_THAT(run({"--version"}).out, StartsWith("dabkerun ") && EndsWith("\n"));
  CHECK_THAT(run({"--help"}).out, StartsWith("Usage: dabkerun -np N"));
  CHECK_THAT(run({"--print-knobs"}).out, StartsWith("# Configuration"));
  const Finished report = run({"-cb"});
  CHECK(report.exit_code == 0);
  CHECK_THAT(report.out, StartsWith("Dabke v") && Contains("Available Controllers:\n    [X] TCP\n") &&
                             Contains("Available Tensor Operations:\n    [X] shm\n") &&
                             Contains("    [X] Gloo\n"));
}

TEST_CASE("information that cannot be written is an error") {
  for (const char* flag : {"--version", "--help", "--print-knobs", "-cb"}) {
    const Finished job =
        LauncherRun({"-c", "exec \"$0\" \"$1\" >/dev/full", DABKERUN, flag}, {.program = "sh"}).finish();
    CHECK(job.exit_code == 1);
    CHECK(job.error == "dabkerun: cannot write to stdout: No space left on device\n");
  }
}

TEST_CASE("a dry run says what would run where, and starts nothing") {
  const Finished dry = run({"--dry-run", "-H", "localhost:2,server.invalid:3", "-np", "4", "--cycle-time-ms",
                            "2", "--ssh-user", "me", "--remote-dabkerun", "/opt/dabkerun", "true", "a b"});
  CHECK(dry.exit_code == 0);
  CHECK(dry.error == "");
  CHECK_THAT(
      dry.out,
      StartsWith("Nothing is started. The hosts are from -H.\n"
                 "host localhost (this one): 2 slots, ranks 0-1\n"
                 "host server.invalid: 3 slots, ranks 2-3\n"
                 "  its agent: ssh -T -o BatchMode=yes ") &&
          Contains(
              " -l me -- server.invalid 'exec /opt/dabkerun --agent'\neach rank runs: true 'a b'\n  in: /") &&
          Catch::EndsWith("\n  with: DABKE_CYCLE_TIME=2\n"));
  CHECK(run({"--dry-run", "-np", "1", "no-such-program"}).exit_code == 127);
}

TEST_CASE("in a job of a batch system its hosts and slots are those of the job") {
  const Finished job =
      LauncherRun({"sh", "-c", "echo $DABKE_RANK of $DABKE_SIZE"},
                  {.environment = {"LSB_JOBID=12", "LSB_HOSTS=localhost localhost localhost"}})
          .finish();
  CHECK(job.exit_code == 0);
  CHECK(sorted_lines(job.out) == Words{"[0]<stdout>:0 of 3", "[1]<stdout>:1 of 3", "[2]<stdout>:2 of 3"});
  CHECK(job.error ==
        "dabkerun: LSF job 12: 1 hosts, 3 slots; ssh brings dabkerun to other hosts (--launcher)\n");
  const Finished none = run({"true"});
  CHECK(none.exit_code == 2);
  CHECK(none.error ==
        "dabkerun: -np is missing: say how many ranks to start, as in dabkerun -np 2 ./train\n");
}

TEST_CASE("each line is prefixed with its rank and stream") {
  const Finished job = run({"-np", "2", "sh", "-c", "echo out; echo err >&2"});
  CHECK(sorted_lines(job.out) == Words{"[0]<stdout>:out", "[1]<stdout>:out"});
  CHECK(sorted_lines(job.error) == Words{"[0]<stderr>:err", "[1]<stderr>:err"});
  CHECK(run({"-np", "1", "echo", "one"}).out == "[0]<stdout>:one\n");
  CHECK(run({"-np", "1", "--no-prefix", "echo", "one"}).out == "one\n");
}

TEST_CASE("a time goes before the prefix when asked for") {
  const std::string line = run({"-np", "1", "--prefix-output-with-timestamp", "echo", "x"}).out;
  CHECK_THAT(line,
             Catch::Matches("[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} [0-9]{4}\\[0\\]<stdout>:x\n"));
}

TEST_CASE("lines of chatty ranks are complete, in order and not torn, also when both streams are one pipe") {
  const bool one_output = GENERATE(false, true);
  constexpr int kLines = 3000;
  const Finished job =
      run({"-np", "2", kWorker, "chatter", std::to_string(kLines)}, {.one_output = one_output});
  CHECK(job.exit_code == 0);
  std::array<int, 2> next{0, 0};
  bool good = true;
  for (const std::string& line : lines_of(job.out)) {
    if (line.find("<stderr>:rank ") == 3) continue;
    const int rank = line[1] - '0';
    int& i = next.at(static_cast<std::size_t>(rank));
    const std::string expected =
        "[" + std::to_string(rank) + "]<stdout>:rank " + std::to_string(rank) + " line " + std::to_string(i) +
        " " + std::string(static_cast<std::size_t>(i * 37 % 301), static_cast<char>('a' + rank));
    ++i;
    if (good) CHECK(line == expected);
    good = good && line == expected;
  }
  CHECK(next == std::array<int, 2>{kLines, kLines});
}

TEST_CASE("bytes pass unchanged, and a last line without newline is completed") {
  CHECK(run({"-np", "1", "printf", "a\\377\\200b\\nlast"}).out ==
        "[0]<stdout>:a\xff\x80"
        "b\n[0]<stdout>:last\n");
  CHECK(run({"-np", "1", "printf", "1%%\\r2%%\\rdone\\n"}).out ==
        "[0]<stdout>:1%\r[0]<stdout>:2%\r[0]<stdout>:done\n");
  CHECK(run({"-np", "1", "printf", "a\\r\\nb\\r\\n"}).out == "[0]<stdout>:a\r\n[0]<stdout>:b\r\n");
}

TEST_CASE("a very long line is split at 1 MiB and loses nothing") {
  constexpr std::size_t kMiB = 1 << 20;
  const Finished job = run({"-np", "1", kWorker, "long", std::to_string(5 * kMiB / 2)});
  const auto lines = lines_of(job.out);
  REQUIRE(lines.size() == 3);
  const std::string prefix = "[0]<stdout>:";
  CHECK((lines[0] == prefix + std::string(kMiB, 'x') && lines[1] == lines[0]));
  CHECK(lines[2] == prefix + std::string(kMiB / 2, 'x'));
}

TEST_CASE("--output-filename also keeps what each rank printed, without prefixes") {
  const TemporaryDirectory directory;
  const Finished job = run({"-np", "11", "--output-filename", directory.path() + "/new/logs", "sh", "-c",
                            "printf \"out $DABKE_RANK\"; echo err >&2"});
  CHECK(job.exit_code == 0);
  CHECK(lines_of(job.out).size() == 11);
  CHECK(directory.text_of("new/logs/rank.00/stdout") == "out 0");
  CHECK(directory.text_of("new/logs/rank.10/stdout") == "out 10");
  CHECK(directory.text_of("new/logs/rank.10/stderr") == "err\n");
  CHECK(run({"-np", "1", "--output-filename", directory.path(), "echo", "x"}).exit_code == 0);
  CHECK(directory.text_of("rank.0/stdout") == "x\n");
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

TEST_CASE("a limit of descriptors that the job would exceed is told before anything is started") {
  // What the test itself has inherited is left out.
  const auto with_limit = [](const std::string& limit, const std::string& flag, const std::string& value,
                             const std::string& more = "") {
    return LauncherRun({"-c",
                        "for fd in $(ls /proc/self/fd); do [ $fd -le 2 ] || eval \"exec $fd<&-\"; done; " +
                            more + " ulimit -n " + limit + "; exec \"$0\" -np 16 \"$1\" \"$2\" echo x",
                        DABKERUN, flag, value},
                       {.program = "bash"})
        .finish();
  };
  const Finished refused = with_limit("79", "--stdin", "none");
  CHECK(refused.exit_code == 1);
  CHECK(refused.out.empty());
  CHECK(refused.error ==
        "dabkerun: 16 ranks take 80 file descriptors in dabkerun, and its hard limit is 79 "
        "(ulimit -Hn): raise that limit or start fewer ranks\n");
  CHECK(with_limit("80", "--stdin", "none").exit_code == 0);
  const TemporaryDirectory directory;
  CHECK(with_limit("111", "--output-filename", directory.path()).exit_code == 1);
  CHECK_FALSE(std::filesystem::exists(directory.path() + "/rank.00"));
  CHECK(with_limit("112", "--output-filename", directory.path()).exit_code == 0);
  const std::string three = "exec 5</dev/null 6</dev/null 7</dev/null;";
  CHECK(
      with_limit("114", "--output-filename", directory.path(), three).error ==
      "dabkerun: 16 ranks take 112 file descriptors in dabkerun beside 3 that were open when it was started, "
      "and its hard limit is 114 (ulimit -Hn): raise that limit or start fewer ranks\n");
  CHECK(with_limit("115", "--output-filename", directory.path(), three).exit_code == 0);
}

TEST_CASE("--output-filename has the descriptors up to the hard limit") {
  const TemporaryDirectory directory;
  const Finished job = LauncherRun({"-c", "ulimit -Sn 24; exec \"$0\" -np 16 --output-filename \"$1\" echo x",
                                    DABKERUN, directory.path()},
                                   {.program = "bash"})
                           .finish();
  CHECK(job.exit_code == 0);
  CHECK(directory.text_of("rank.15/stdout") == "x\n");
}

TEST_CASE("SIGINT, SIGTERM and SIGHUP reach every rank, and a rank that handles them may end with 0") {
  const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP);
  LauncherRun launcher({"-np", "3", kWorker, "catch"});
  REQUIRE(launcher.wait_for_output("ready", 3));
  launcher.signal(signal);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 0);
  CHECK(sorted_lines(job.out) == Words{"[0]<stdout>:caught", "[0]<stdout>:ready", "[1]<stdout>:caught",
                                       "[1]<stdout>:ready", "[2]<stdout>:caught", "[2]<stdout>:ready"});
}

TEST_CASE("a job ended by SIGINT returns 130") {
  LauncherRun launcher({"-np", "2", kWorker, "sleep"});
  REQUIRE(launcher.wait_for_output("ready", 2));
  launcher.signal(SIGINT);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 130);
  CHECK_THAT(job.error, StartsWith("dabkerun: SIGINT: passing it on to all ranks") &&
                            EndsWith("dabkerun: the job was ended by SIGINT\n") &&
                            !Contains("killed because"));
  CHECK(job.took < kPatience);
}

TEST_CASE("ranks that do not end on SIGINT are killed after 4 s, or at once by a second SIGINT") {
  const bool twice = GENERATE(false, true);
  LauncherRun launcher({"-np", "2", kWorker, "deaf", "-1"});
  REQUIRE(launcher.wait_for_output("ready", 2));
  launcher.signal(SIGINT);
  if (twice) {
    REQUIRE(launcher.wait_for_error("passing it on to all ranks"));
    launcher.signal(SIGINT);
  }
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 130);
  CHECK_THAT(job.error, Contains("killed because they did not end on it: ranks 0-1"));
  if (twice) {
    CHECK_THAT(job.error, Contains("SIGINT: killing the ranks that still run"));
  } else {
    CHECK(job.took > 3500ms);
  }
  CHECK(job.took < kPatience);
}

TEST_CASE("nothing is left after kill -9 of dabkerun, not even a daemon of a rank that ignores SIGTERM") {
  const TemporaryDirectory directory;
  LauncherRun launcher({"-np", "2", kWorker, "daemon", directory.path(), "stay"});
  REQUIRE(launcher.wait_for_output("ready", 2));
  const std::array pids{directory.pid_in("daemon.0"), directory.pid_in("daemon.1")};
  for (const pid_t pid : pids) CHECK_FALSE(is_gone(pid));
  launcher.signal(SIGKILL);
  for (const pid_t pid : pids) CHECK(is_gone_within(pid, kPatience));
  CHECK(launcher.finish().exit_code == 137);
}

TEST_CASE("nothing is left of a rank whose supervisor is killed, not even a daemon that ignores SIGTERM") {
  const TemporaryDirectory directory;
  LauncherRun launcher({"-np", "2", kWorker, "daemon", directory.path(), "stay"});
  REQUIRE(launcher.wait_for_output("ready", 2));
  ::kill(parent_of(directory.pid_in("daemon.0")), SIGKILL);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 128 + SIGKILL);
  CHECK_THAT(job.error, Contains("rank 0 ") && Contains("was lost: its supervisor process was killed"));
  for (const char* name : {"daemon.0", "daemon.1"}) CHECK(is_gone(directory.pid_in(name)));
}

TEST_CASE("what the shell had started before it became dabkerun is not ended with the orphans of a rank") {
  const TemporaryDirectory directory;
  LauncherRun launcher({"-c",
                        "sleep 77 & echo $! >\"$1/new\"; mv \"$1/new\" \"$1/other\"; "
                        "exec \"$0\" -np 1 sh -c 'sleep 77 & echo orphan $!; sleep 77; :'",
                        DABKERUN, directory.path()},
                       {.program = "bash"});
  REQUIRE(launcher.wait_for_output("orphan "));
  REQUIRE(launcher.wait_for_output("\n"));
  const pid_t orphan = launcher.number_after("orphan ");
  ::kill(parent_of(parent_of(orphan)), SIGKILL);
  const pid_t other = directory.pid_in("other");
  CHECK(is_gone_within(orphan, kPatience));
  CHECK_FALSE(is_gone(other));
  ::kill(other, SIGKILL);
  CHECK(launcher.finish().exit_code == 128 + SIGKILL);
}

TEST_CASE("a daemon that a finished rank leaves behind is ended, and dabkerun waits for that") {
  const TemporaryDirectory directory;
  const Finished job = run({"-np", "2", kWorker, "daemon", directory.path(), "leave"});
  CHECK(job.exit_code == 0);
  for (const char* name : {"daemon.0", "daemon.1"}) CHECK(is_gone(directory.pid_in(name)));
  CHECK(job.took < kPatience);
}

TEST_CASE("what a rank's own pipeline still prints after its end is not lost") {
  const Finished job = run({"-np", "1", "--no-prefix", "sh", "-c", "(sleep 0.05; echo late) & echo early"});
  CHECK(job.out == "early\nlate\n");
  CHECK(job.exit_code == 0);
}

TEST_CASE("when nobody reads stdout any more the job ends") {
  const TemporaryDirectory directory;
  LauncherRun launcher({"-np", "2", kWorker, "sleep", directory.path()});
  REQUIRE(launcher.wait_for_output("ready", 2));
  launcher.close_output();
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 128 + SIGPIPE);
  CHECK_THAT(job.error, Contains("nobody reads stdout any more"));
  for (const char* rank : {"0", "1"}) CHECK(is_gone(directory.pid_in(rank)));
  CHECK(job.took < kPatience);
}

TEST_CASE("a job that never prints does not need a reader") {
  const TemporaryDirectory directory;
  LauncherRun launcher({"-np", "2", kWorker, "quiet", directory.path()});
  launcher.close_output();
  directory.pid_in("0");
  directory.pid_in("1");
  std::ofstream(directory.path() + "/go") << "now";
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 0);
  CHECK(job.error.empty());
}

TEST_CASE("a copy of the output that could not be written is told by name, and fails the job") {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory.path() + "/rank.0");
  std::filesystem::create_symlink("/dev/full", directory.path() + "/rank.0/stdout");
  const Finished job =
      run({"-np", "1", "--no-prefix", "--output-filename", directory.path(), "echo", "something"});
  CHECK(job.exit_code == 1);
  CHECK(job.out == "something\n");
  CHECK(job.error ==
        "dabkerun: cannot write the output file of rank 0's stdout: No space left on device; the "
        "rest is on the console alone\n");
}

TEST_CASE("a limit of file size is an error in writing, not the end of dabkerun") {
  const TemporaryDirectory directory;
  const Finished job =
      LauncherRun({"-c", "ulimit -f 1; exec \"$0\" -np 1 --output-filename \"$1\" \"$2\" long 5000", DABKERUN,
                   directory.path(), kWorker},
                  {.program = "bash"})
          .finish();
  CHECK(job.exit_code == 1);
  CHECK(job.out.size() == std::string("[0]<stdout>:").size() + 5001);
  CHECK_THAT(job.error, Contains("cannot write the output file of rank 0's stdout: File too large"));
}

TEST_CASE("when dabkerun has no memory left it says so in a sentence, and its ranks end") {
  if (test::kSanitized) DABKE_SKIP("a sanitizer reserves more than any limit of address space");
  const TemporaryDirectory directory;
  LauncherRun launcher({"-c", "ulimit -s 256 -v 32000; exec \"$0\" -np 40 \"$1\" hold \"$2\"", DABKERUN,
                        kWorker, directory.path()},
                       {.program = "bash"});
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 1);
  CHECK_THAT(job.error, StartsWith("dabkerun: no memory is left (see ulimit -v, "));
  CHECK(is_gone_within(directory.pid_in("0"), kPatience));
}

TEST_CASE("when the store's thread cannot be started dabkerun says why") {
  if (test::kSanitized) DABKE_SKIP("a sanitizer does not start with stacks of such a size");
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_max != RLIM_INFINITY)
    DABKE_SKIP("the size of stacks is limited (ulimit -Hs)");
  const TemporaryDirectory directory;
  const Finished job = LauncherRun({"-c", "ulimit -s 200000000000; exec \"$0\" -np 2 \"$1\" sleep \"$2\"",
                                    DABKERUN, kWorker, directory.path()},
                                   {.program = "bash"})
                           .finish();
  CHECK(job.exit_code == 1);
  CHECK_THAT(job.error, StartsWith("dabkerun: cannot start thread 'dabke-store': ") && Contains("ulimit -v"));
}

TEST_CASE("a stopped rank is continued to handle the signal that ends the job") {
  const TemporaryDirectory directory;
  LauncherRun launcher({"-np", "2", kWorker, "catch", directory.path()});
  REQUIRE(launcher.wait_for_output("ready", 2));
  ::kill(directory.pid_in("1"), SIGSTOP);
  launcher.signal(SIGTERM);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 0);
  CHECK(sorted_lines(job.out).front() == "[0]<stdout>:caught");
  CHECK_THAT(job.error, !Contains("killed because they did not end on it"));
}

TEST_CASE("no stop of the terminal holds a job that no shell could continue") {
  // The shell that started it has gone, and so its process group is an orphaned one.
  const int stop = GENERATE(SIGTSTP, SIGTTIN, SIGTTOU);
  const TemporaryDirectory directory;
  LauncherRun launcher(
      {"-c",
       "set -m; (exec \"$0\" -np 1 \"$1\" sleep \"$2\") & echo $! >\"$2/new\"; mv \"$2/new\" "
       "\"$2/launcher\"",
       DABKERUN, kWorker, directory.path()},
      {.program = "bash"});
  const pid_t pid = directory.pid_in("launcher");
  REQUIRE(launcher.wait_for_output("ready"));
  REQUIRE(is_gone_within(launcher.pid(), kPatience));
  ::kill(pid, stop);
  ::kill(pid, SIGTERM);
  const bool is_over = is_gone_within(pid, kPatience);
  if (!is_over) ::kill(pid, SIGKILL);
  REQUIRE(is_over);
  CHECK_THAT(launcher.finish().error, Contains("the job was ended by SIGTERM"));
}

TEST_CASE(
    "a signal at any moment of the start ends dabkerun with that signal's code, and all that it started") {
  std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<int> moments_us(0, test::kSanitized ? 100'000 : 20'000);
  const std::string mark = "DABKE_TEST_MARK=" + std::to_string(::getpid());
  const auto enough = std::chrono::steady_clock::now() + 20s;  // for a machine that has other things to do
  for (int round = 0; round < 300 && std::chrono::steady_clock::now() < enough; ++round) {
    const int signal = round % 2 == 0 ? SIGTERM : SIGINT;
    const int moment_us = moments_us(random);
    LauncherRun launcher({"-np", "2", kWorker, "sleep"}, {.environment = {mark}});
    std::this_thread::sleep_for(std::chrono::microseconds(moment_us));
    launcher.signal(signal);
    const Finished job = launcher.finish();
    CAPTURE(signal, moment_us, job.error);
    REQUIRE(job.exit_code == 128 + signal);
    REQUIRE(processes_with(mark).empty());
  }
}

TEST_CASE("a reader that is slow loses nothing and does not stop signals") {
  LauncherRun launcher({"-np", "2", "yes"});
  std::this_thread::sleep_for(
      300ms);  // the pipe and the launcher's memory are full, and both ranks wait in write
  launcher.signal(SIGINT);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 130);
  const auto lines = lines_of(job.out);
  CHECK(std::ranges::all_of(
      lines, [](const std::string& line) { return line == "[0]<stdout>:y" || line == "[1]<stdout>:y"; }));
}

TEST_CASE(
    "output that nobody reads when the job has been told to end is lost after a while, and told as lost") {
  const TemporaryDirectory directory;
  const std::string output = directory.path() + "/stdout";
  REQUIRE(::mkfifo(output.c_str(), 0600) == 0);
  const Fd reader(::open(output.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const bool is_over = GENERATE(false, true);  // before it is told to end
  LauncherRun launcher({"-c", "exec \"$0\" -np 1 --output-filename \"$1\" \"$2\" $3 \"$1\" >\"$1/stdout\"",
                        DABKERUN, directory.path(), kWorker, is_over ? "spill" : "flood"},
                       {.program = "bash"});
  const pid_t rank = directory.pid_in("0");
  if (is_over) REQUIRE(is_gone_within(rank, kPatience));
  launcher.signal(SIGTERM);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 128 + SIGTERM);
  CHECK(job.took < kPatience);
  CHECK_THAT(job.error, Contains(" bytes of output are lost, because nobody has read them"));
  if (is_over) CHECK(directory.text_of("rank.0/stdout").size() == 1 << 20);
}

TEST_CASE("the last words of a job wait for its reader, as all its output does") {
  // The line takes as much as the pipe does, so that there is no room for them.
  const auto size = std::to_string((64 << 10) - std::string("[0]<stdout>:\n").size());
  LauncherRun launcher({"-np", "1", "sh", "-c", "\"$0\" long \"$1\"; exit 3", kWorker, size},
                       {.one_output = true});
  std::this_thread::sleep_for(3s);  // the time to look at one page
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 3);
  CHECK_THAT(job.out, Contains("exited with status code 3"));
}

TEST_CASE("the job's key is on no command line") {
  const Finished job =
      run({"-np", "1", "sh", "-c",
           "echo $DABKE_JOB_KEY | grep -l -a -f - /proc/[0-9]*/cmdline 2>/dev/null; echo done"});
  CHECK(job.out == "[0]<stdout>:done\n");
}

}  // namespace dabke

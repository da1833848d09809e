// How jobs of the real dabkerun end, by themselves and by signals, and that they leave nothing behind.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/patience.h"
#include "tests/send_signal.h"
#include "tests/skip.h"

namespace dabke::test {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;
using test::kPatience;
using Words = std::vector<std::string>;

const std::string kWorker = LAUNCHER_WORKER;
/// A grace period for jobs that must end on the signal, and not by SIGKILL. No job here takes that long.
const Words kNoHurry = {"--grace-period", "60"};
/// The time limit of jobs in which dabkerun gives ranks the default time before it kills them.
constexpr auto kWithGrace = 4s + kPatience;

Words with_no_hurry(Words words) {
  words.insert(words.begin(), kNoHurry.begin(), kNoHurry.end());
  return words;
}

Finished run(const Words& arguments, const LauncherSetup& setup = {}) {
  return LauncherRun(arguments, setup).finish();
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
  const Finished job = run(with_no_hurry({"-np", "3", kWorker, "exit", "2", "7"}));
  CHECK(job.exit_code == 7);
  const auto lines = lines_of(job.error);
  REQUIRE(lines.size() == 3);
  CHECK_THAT(lines[0], StartsWith("dabkerun: rank 2 on host "));
  CHECK_THAT(lines[0], EndsWith(" exited with status code 7; ending the other ranks"));
  CHECK_THAT(lines[1], StartsWith("dabkerun: first failure: rank 2 on host ") && Contains("(pid ") &&
                           EndsWith("exited with status code 7: the program wrote nothing"));
  CHECK(lines[2] == "dabkerun: after that: ranks 0-1 ended by dabkerun");
  CHECK(job.took < kPatience);
}

TEST_CASE(
    "a failed job ends with the last lines of the rank that failed first, then how it and the others ended") {
  const Finished job =
      run(with_no_hurry({"-np", "2", "sh", "-c",
                         "test $DABKE_RANK = 0 && exec sleep 60; seq 20; echo it is broken >&2; exit 3"}));
  CHECK(job.exit_code == 3);
  const auto lines = lines_of(job.error);
  REQUIRE(lines.size() >= 4);
  CHECK(std::ranges::count(lines, "dabkerun: the last lines that rank 1 wrote:") == 1);
  CHECK(std::ranges::count(lines, "dabkerun: | 20") == 1);
  CHECK(std::ranges::count(lines, "dabkerun: | it is broken") == 1);
  CHECK(std::ranges::count(lines, "dabkerun: | 1") == 0);  // dabkerun keeps ten lines
  CHECK_THAT(lines[lines.size() - 2], StartsWith("dabkerun: first failure: rank 1 on host "));
  CHECK(lines.back() == "dabkerun: after that: rank 0 ended by dabkerun");
}

TEST_CASE("last lines that stand just above are not told again, and those that others have pushed away are") {
  for (const int others : {5, 100}) {
    // The second of two ranks fails, and then the first one, which has set its trap, writes `others` lines.
    const TemporaryDirectory directory;
    const std::string is_set = directory / "set";
    REQUIRE(::mkfifo(is_set.c_str(), 0600) == 0);
    const std::string program = "if test $DABKE_RANK = 1; then read -r word <" + is_set +
                                "; echo it is broken; exit 3; fi; trap 'seq " + std::to_string(others) +
                                "; exit 4' TERM; : >" + is_set + "; sleep 60 & wait";
    const Finished job =
        LauncherRun({"-c", "exec \"$0\" -np 2 --grace-period 100 sh -c \"$1\" 2>&1", DABKERUN, program},
                    {.program = "bash"})
            .finish();
    CAPTURE(others, job.out);
    CHECK(job.exit_code == 3);
    const auto lines = lines_of(job.out);
    CHECK(std::ranges::count(lines, "dabkerun: | it is broken") == (others == 100 ? 1 : 0));
    CHECK(std::ranges::count(lines, "[1]<stdout>:it is broken") == 1);
  }
}

TEST_CASE("a rank that others name as the cause is the first failure, though it takes its time to end") {
  std::string error;
  for (int i = 0; i < 5; ++i) {  // on a busy machine, the rank may take longer than that
    const Finished job = run({"-np", "2", "sh", "-c",
                              "test $DABKE_RANK = 0 && sleep 1.5 && exit 7; "
                              "echo '[dabke rank 1 error] rank 0 on this host failed' >&2; exit 1"});
    error = job.error;
    if (job.exit_code == 7) break;
  }
  CHECK_THAT(error, Contains("dabkerun: first failure: rank 0 on host "));
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
  send_signal(directory.pid_in("1"), SIGKILL);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 137);
  CHECK_THAT(job.error, Contains("first failure: rank 1 ") && Contains("SIGKILL"));
  for (const char* rank : {"0", "1", "2"}) CHECK(is_gone(directory.pid_in(rank)));
}

TEST_CASE("how a rank ended is known, also when its supervisor goes with commands that it has not read") {
  const TemporaryDirectory directory;
  LauncherRun launcher(with_no_hurry({"-np", "2", kWorker, "sleep", directory.path()}), {.one_output = true});
  REQUIRE(launcher.wait_for_output("ready", 2));
  const pid_t rank = directory.pid_in("1"), supervisor = parent_of(rank);
  send_signal(supervisor, SIGSTOP);
  send_signal(rank, SIGUSR1);
  send_signal(directory.pid_in("0"), SIGUSR1);
  REQUIRE(launcher.wait_for_output("ending the other ranks"));
  launcher.signal(SIGINT);
  REQUIRE(launcher.wait_for_output("killing the ranks that still run"));
  REQUIRE(is_gone_within(rank, 60s));
  // The supervisor reads one of the two commands, finds that the rank has ended, reports it and exits. All
  // that happens before dabkerun reads again.
  launcher.signal(SIGSTOP);
  send_signal(supervisor, SIGCONT);
  CHECK(is_gone_within(supervisor, 60s));
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
  CHECK(job.took < kWithGrace);
  CHECK_THAT(job.error, Contains("rank 1 killed by dabkerun after SIGTERM did not end it"));
}

TEST_CASE("the grace period is what ranks get between SIGTERM and SIGKILL, and none is none") {
  std::chrono::milliseconds fastest = 60s;
  for (int i = 0; i < 10 && fastest >= 3500ms; ++i) {  // a busy machine may itself take that long
    const TemporaryDirectory directory;
    const Finished job = run({"-np", "2", "--grace-period", "0", kWorker, "deaf", "0", directory.path()});
    CHECK(job.exit_code == 4);
    CHECK_THAT(job.error, Contains("rank 1 killed by dabkerun"));
    fastest = std::min(fastest, job.took);
  }
  CHECK(fastest < 3500ms);
}

TEST_CASE("SIGINT, SIGTERM and SIGHUP reach every rank, and a rank that handles them may end with 0") {
  const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP);
  LauncherRun launcher(with_no_hurry({"-np", "3", kWorker, "catch"}));
  REQUIRE(launcher.wait_for_output("ready", 3));
  launcher.signal(signal);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 0);
  CHECK(sorted_lines(job.out) == Words{"[0]<stdout>:caught", "[0]<stdout>:ready", "[1]<stdout>:caught",
                                       "[1]<stdout>:ready", "[2]<stdout>:caught", "[2]<stdout>:ready"});
}

TEST_CASE("a job ended by SIGINT returns 130") {
  LauncherRun launcher(with_no_hurry({"-np", "2", kWorker, "sleep"}));
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
  const Words words = {"-np", "2", kWorker, "deaf", "-1"};
  LauncherRun launcher(twice ? with_no_hurry(words) : words);
  REQUIRE(launcher.wait_for_output("ready", 2));
  launcher.signal(SIGINT);
  if (twice) {
    REQUIRE(launcher.wait_for_error("passing it on to all ranks"));
    launcher.signal(SIGINT);
  }
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 130);
  CHECK_THAT(job.error, Contains("killed because they did not end in time: ranks 0-1"));
  if (twice) {
    CHECK_THAT(job.error, Contains("SIGINT: killing the ranks that still run"));
  } else {
    CHECK(job.took > 3500ms);
  }
  CHECK(job.took < kWithGrace);
}

TEST_CASE("nothing is left after kill -9 of dabkerun, not even a daemon of a rank that ignores SIGTERM") {
  const TemporaryDirectory directory;
  LauncherRun launcher({"-np", "2", kWorker, "daemon", directory.path(), "stay"});
  REQUIRE(launcher.wait_for_output("ready", 2));
  const std::array pids{directory.pid_in("daemon.0"), directory.pid_in("daemon.1")};
  for (const pid_t pid : pids) CHECK_FALSE(is_gone(pid));
  launcher.signal(SIGKILL);
  for (const pid_t pid : pids) CHECK(is_gone_within(pid, kWithGrace));
  CHECK(launcher.finish().exit_code == 137);
}

TEST_CASE("nothing is left of a rank whose supervisor is killed, not even a daemon that ignores SIGTERM") {
  const TemporaryDirectory directory;
  LauncherRun launcher({"-np", "2", kWorker, "daemon", directory.path(), "stay"});
  REQUIRE(launcher.wait_for_output("ready", 2));
  send_signal(parent_of(directory.pid_in("daemon.0")), SIGKILL);
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
  send_signal(parent_of(parent_of(orphan)), SIGKILL);
  const pid_t other = directory.pid_in("other");
  CHECK(is_gone_within(orphan, kPatience));
  CHECK_FALSE(is_gone(other));
  send_signal(other, SIGKILL);
  CHECK(launcher.finish().exit_code == 128 + SIGKILL);
}

TEST_CASE("a daemon that a finished rank leaves behind is ended, and dabkerun waits for that") {
  const TemporaryDirectory directory;
  const Finished job = run({"-np", "2", kWorker, "daemon", directory.path(), "leave"});
  CHECK(job.exit_code == 0);
  for (const char* name : {"daemon.0", "daemon.1"}) CHECK(is_gone(directory.pid_in(name)));
  CHECK(job.took < kWithGrace);
}

TEST_CASE("a stopped rank is continued to handle the signal that ends the job") {
  const TemporaryDirectory directory;
  LauncherRun launcher(with_no_hurry({"-np", "2", kWorker, "catch", directory.path()}));
  REQUIRE(launcher.wait_for_output("ready", 2));
  send_signal(directory.pid_in("1"), SIGSTOP);
  launcher.signal(SIGTERM);
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 0);
  CHECK(sorted_lines(job.out).front() == "[0]<stdout>:caught");
  CHECK_THAT(job.error, !Contains("killed because they did not end in time"));
}

TEST_CASE("no stop of the terminal holds a job that no shell could continue") {
  // The shell that started dabkerun has gone, so dabkerun's process group is an orphaned one.
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
  send_signal(pid, stop);
  send_signal(pid, SIGTERM);
  const bool is_over = is_gone_within(pid, kPatience);
  if (!is_over) send_signal(pid, SIGKILL);
  REQUIRE(is_over);
  CHECK_THAT(launcher.finish().error, Contains("the job was ended by SIGTERM"));
}

TEST_CASE(
    "a signal at any moment of the start ends dabkerun with that signal's code, and all that it started") {
  std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<int> moments_us(0, test::kSanitized ? 100'000 : 20'000);
  const std::string mark = "DABKE_TEST_MARK=" + std::to_string(::getpid());
  const auto enough = std::chrono::steady_clock::now() + 20s;  // for a busy machine
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

}  // namespace dabke::test

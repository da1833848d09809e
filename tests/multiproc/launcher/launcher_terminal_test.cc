// The real dabkerun at a terminal.
#include <signal.h>

#include <fstream>

#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/multiproc/launcher/terminal.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using test::kPatience;
using Words = std::vector<std::string>;

const std::string kWorker = LAUNCHER_WORKER;
const std::string kControlD = "\x04";
const std::string kControlS = "\x13";
const std::string kControlZ = "\x1a";
// The command as a user types it.
const std::string kDabkerun = "'" DABKERUN "'";
/// The job's rank prints what it reads.
const std::string kEcho = kDabkerun + " -np 1 --no-prefix sed -u s/^/rank:/";

/// A terminal that only shows the text that it gets.
const Words kNoControls{"TERM=dumb"};

/// A user's shell, with job control.
LauncherRun start_shell(const Terminal& terminal) {
  return LauncherRun({"--norc", "--noprofile", "--noediting", "-i"},
                     {.program = "bash", .environment = {"PS1=ready> "}, .terminal = terminal.path()});
}

}  // namespace

TEST_CASE("a terminal that nobody reads, or that Ctrl-S has stopped, does not keep signals from the ranks") {
  const bool is_stopped = GENERATE(false, true);
  const TemporaryDirectory directory;
  Terminal terminal;
  const LauncherRun launcher({"-np", "1", kWorker, "flood", directory.path()}, {.terminal = terminal.path()});
  if (is_stopped) {
    REQUIRE(terminal.wait_for("[0]<stdout>:"));
    terminal.type(kControlS);
  }
  const pid_t rank = directory.pid_in("0");
  launcher.signal(SIGTERM);
  CHECK(is_gone_within(rank, kPatience));
}

TEST_CASE("a terminal that nobody reads does not keep dabkerun from ending") {
  const TemporaryDirectory directory;
  Terminal terminal;
  LauncherRun launcher({"-np", "1", kWorker, "flood", directory.path()}, {.terminal = terminal.path()});
  directory.pid_in("0");
  launcher.signal(SIGTERM);
  REQUIRE(is_gone_within(launcher.pid(), 4s + kPatience));  // after the time that a reader gets
  CHECK(launcher.finish().exit_code == 128 + SIGTERM);
}

TEST_CASE(
    "what is typed while dabkerun is in the background is the shell's, and rank 0 reads on in the "
    "foreground") {
  Terminal terminal;
  LauncherRun shell = start_shell(terminal);
  terminal.type(kEcho + "\none\n");
  REQUIRE(terminal.wait_for("rank:one"));
  terminal.type(kControlZ);
  REQUIRE(terminal.wait_for("Stopped"));
  terminal.type("bg\n");
  for (int i = 0; i < 20; ++i) {
    terminal.type("echo $((" + std::to_string(i) + " + 1000))\n");
    REQUIRE(terminal.wait_for(std::to_string(i + 1000)));
  }
  terminal.type("fg\ntwo\n");
  CHECK(terminal.wait_for("rank:two"));
  CHECK_THAT(terminal.shown(), !Contains("rank:echo"));
  terminal.type(kControlD);
  terminal.type("exit $?\n");
  REQUIRE(is_gone_within(shell.pid(), kLongest));
  CHECK(shell.finish().exit_code == 0);
}

TEST_CASE("a job that was started in the background reads what is typed once it is in the foreground") {
  Terminal terminal;
  LauncherRun shell = start_shell(terminal);
  terminal.type(kEcho + " &\necho $((1000 + 1))\n");
  REQUIRE(terminal.wait_for("1001"));
  terminal.type("fg\none\n");
  CHECK(terminal.wait_for("rank:one"));
  terminal.type(kControlD);
  terminal.type("exit $?\n");
  REQUIRE(is_gone_within(shell.pid(), kLongest));
}

TEST_CASE("what rank 0 does not read is left for the shell") {
  Terminal terminal;
  LauncherRun shell = start_shell(terminal);
  const TemporaryDirectory directory;
  terminal.type(kDabkerun + " -np 1 '" + kWorker + "' quiet " + directory.path() + "\n");
  directory.pid_in("0");
  terminal.type("one line is on its way to rank 0\necho $((1000 + 1))\nexit 7\n");
  std::ofstream(directory.path() + "/go") << "now";
  CHECK(terminal.wait_for("1001"));
  REQUIRE(is_gone_within(shell.pid(), kLongest));
  CHECK(shell.finish().exit_code == 7);
}

TEST_CASE("prefixes have the colour of their rank on a terminal that has colours, unless the user objects") {
  for (const std::string setting : {"NO_COLOR=", "NO_COLOR=1", "TERM=dumb"}) {
    Terminal terminal;
    LauncherRun launcher({"-np", "2", "echo", "hello"},
                         {.environment = {"TERM=xterm", setting}, .terminal = terminal.path()});
    REQUIRE(terminal.wait_for("[1]<stdout>:"));
    const bool is_coloured = setting == "NO_COLOR=";
    CHECK(terminal.wait_for(is_coloured ? "\x1b[36m[0]<stdout>:\x1b[0mhello" : "[0]<stdout>:hello"));
    if (!is_coloured) CHECK_THAT(terminal.shown(), !Contains("\x1b["));
    CHECK(launcher.finish().exit_code == 0);
  }
}

TEST_CASE(
    "a prompt is shown while its rank waits for the answer, and what comes after the answer has its prefix") {
  const std::string prefix = GENERATE("", "[0]<stdout>:");
  Terminal terminal;
  Words words{"-np", "1", "sh", "-c", "printf 'name? '; read name; echo \"hello $name\""};
  if (prefix.empty()) words.insert(words.begin(), "--no-prefix");
  LauncherRun launcher(words, {.environment = kNoControls, .terminal = terminal.path()});
  REQUIRE(terminal.wait_for("name? "));
  terminal.type("Bob\n");
  CHECK(terminal.wait_for("hello Bob\r\n"));
  CHECK(terminal.shown() == prefix + "name? Bob\r\n" + prefix + "hello Bob\r\n");
  CHECK(launcher.finish().exit_code == 0);
}

TEST_CASE("an unfinished line on stderr is shown, and goes on in place") {
  const TemporaryDirectory directory;
  Terminal terminal;
  LauncherRun launcher(
      {"-np", "1", "sh", "-c", "printf '1 ' >&2; while ! test -e \"$0/go\"; do sleep 0.01; done; echo 2 >&2",
       directory.path()},
      {.environment = kNoControls, .terminal = terminal.path()});
  REQUIRE(terminal.wait_for("[0]<stderr>:1 "));
  std::ofstream(directory.path() + "/go") << "now";
  CHECK(terminal.wait_for("[0]<stderr>:1 2\r\n"));
  CHECK(launcher.finish().exit_code == 0);
}

TEST_CASE("what another rank prints while an unfinished line is shown begins a line of its own") {
  const TemporaryDirectory directory;
  Terminal terminal;
  LauncherRun launcher({"-np", "2", "sh", "-c",
                        "wait_for() { while ! test -e \"$1\"; do sleep 0.01; done; }\n"
                        "if test $DABKE_RANK = 0; then printf 'name? '; wait_for \"$0/0\"; echo Bob\n"
                        "else wait_for \"$0/1\"; echo hello; wait_for \"$0/0\"; fi",
                        directory.path()},
                       {.environment = kNoControls, .terminal = terminal.path()});
  REQUIRE(terminal.wait_for("[0]<stdout>:name? "));
  std::ofstream(directory.path() + "/1") << "now";
  REQUIRE(terminal.wait_for("hello\r\n"));
  std::ofstream(directory.path() + "/0") << "now";
  CHECK(terminal.wait_for("Bob\r\n"));
  CHECK(terminal.shown() == "[0]<stdout>:name? \r\n[1]<stdout>:hello\r\n[0]<stdout>:Bob\r\n");
  CHECK(launcher.finish().exit_code == 0);
}

TEST_CASE(
    "ranks on every host have a terminal as stdout where dabkerun has one, and no other, nor one that "
    "controls them") {
  const std::string flag = GENERATE("", "--pty", "--no-pty");
  const TemporaryDirectory directory;
  Terminal terminal;
  Words words{"-H",
              "localhost:1,one.invalid:1",
              "--remote-shell",
              make_remote_shell(directory),
              "sh",
              "-c",
              "for fd in 0 1 2; do test -t $fd && echo $fd; done; (: >/dev/tty) 2>&- && echo controlled; "
              "echo end"};
  if (!flag.empty()) words.insert(words.begin(), flag);
  LauncherRun launcher(words, {.environment = kNoControls, .terminal = terminal.path()});
  for (const std::string prefix : {"[0]<stdout>:", "[1]<stdout>:"}) {
    CHECK(terminal.wait_for(prefix + "end"));
    CHECK((terminal.shown().find(prefix + "1\r") != std::string::npos) == (flag != "--no-pty"));
    for (const char* const other : {"0", "2", "controlled"})
      CHECK_THAT(terminal.shown(), !Contains(prefix + other));
  }
  CHECK(launcher.finish().exit_code == 0);
}

TEST_CASE(
    "the terminals of ranks on every host have the size of dabkerun's, less the room that the prefix takes") {
  const TemporaryDirectory directory;
  Terminal terminal;
  terminal.resize(40, 100);
  LauncherRun launcher({"-H", "localhost:1,one.invalid:1", "--remote-shell", make_remote_shell(directory),
                        kWorker, "window", directory.path()},
                       {.environment = kNoControls, .terminal = terminal.path()});
  for (const std::string prefix : {"[0]<stdout>:", "[1]<stdout>:"})
    CHECK(terminal.wait_for(prefix + "40x88\r\n"));
  terminal.resize(50, 120);
  for (const std::string prefix : {"[0]<stdout>:", "[1]<stdout>:"})
    CHECK(terminal.wait_for(prefix + "50x108\r\n"));
  std::ofstream(directory.path() + "/go") << "now";
  CHECK(launcher.finish().exit_code == 0);
}

TEST_CASE("a program that writes each line at once on a terminal alone is seen while it runs") {
  Terminal terminal;
  LauncherRun launcher({"-np", "1", "sed", "s/one/rank:&/"},
                       {.environment = kNoControls, .terminal = terminal.path()});
  terminal.type("one\n");
  CHECK(terminal.wait_for("[0]<stdout>:rank:one"));
  terminal.type(kControlD);
  CHECK(launcher.finish().exit_code == 0);
}

TEST_CASE("Ctrl-C at the terminal reaches the ranks once") {
  Terminal terminal;
  LauncherRun launcher({"-np", "1", "--grace-period", "60", kWorker, "catch"}, {.terminal = terminal.path()});
  REQUIRE(terminal.wait_for("ready"));
  terminal.type("\x03");
  CHECK(terminal.wait_for("caught"));
  REQUIRE(is_gone_within(launcher.pid(), kLongest));
  CHECK(launcher.finish().exit_code == 0);
}

}  // namespace dabke::test

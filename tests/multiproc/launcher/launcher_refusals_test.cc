// Jobs that the real dabkerun refuses to start, or cannot start: one line states the reason.
#include <fcntl.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/patience.h"
#include "tests/skip.h"

namespace dabke::test {
namespace {

using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;
using test::kPatience;
using Words = std::vector<std::string>;

const std::string kWorker = LAUNCHER_WORKER;

Finished run(const Words& arguments, const LauncherSetup& setup = {}) {
  return LauncherRun(arguments, setup).finish();
}

}  // namespace

TEST_CASE("an agent of another version is named with both, and no rank is started") {
  const TemporaryDirectory directory;
  const std::string shell = directory.path() + "/shell";
  // Every version has sent this greeting, and reads what it receives.
  std::ofstream(shell)
      << "#!/bin/sh\necho greetings; printf '\\ndabke-agent 0.0.1/1 x\\n'; cat > /dev/null\n";
  std::filesystem::permissions(shell, std::filesystem::perms::owner_all);
  const Finished job = run({"-H", "old:1", "--remote-shell", shell, "true"});
  CHECK(job.exit_code == 1);
  CHECK_THAT(lines_of(job.error).front(),
             StartsWith("dabkerun: host old: the dabkerun there has version 0.0.1/1, this one has ") &&
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

TEST_CASE("a script whose interpreter is missing is refused before anything is started") {
  const TemporaryDirectory directory;
  const std::string script = directory.path() + "/script";
  std::ofstream(script) << "#!/no/such/interpreter\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const Finished job = run({"-np", "2", script});
  CHECK(job.exit_code == 127);
  CHECK(job.error ==
        "dabkerun: cannot run '" + script +
            "': its first line names the interpreter '/no/such/interpreter', which does not exist; "
            "install it or correct that line\n");
}

TEST_CASE("a shared library that is missing is named at the end of the job") {
  const Finished job =
      run({"-np", "2", "sh", "-c",
           "echo 'x: error while loading shared libraries: liby.so.1: cannot open shared object "
           "file: No such file or directory' >&2; exit 127"});
  CHECK(job.exit_code == 127);
  CHECK_THAT(job.error,
             Contains("exited with status code 127: the shared library liby.so.1 was not found: ") &&
                 Contains("-x LD_LIBRARY_PATH=DIRECTORY"));
}

TEST_CASE("a dabkerun that mpirun has started as one of several starts nothing") {
  const TemporaryDirectory directory;
  const Finished job = LauncherRun({"-np", "2", "touch", directory.path() + "/started"},
                                   {.environment = {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=0"}})
                           .finish();
  CHECK(job.exit_code == 2);
  CHECK_THAT(job.error, StartsWith("dabkerun: Open MPI has started dabkerun 2 times"));
  CHECK(lines_of(job.error).size() == 1);
  CHECK_FALSE(std::filesystem::exists(directory.path() + "/started"));
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
      {{"-H", "a:"}, "-H a:: 'a:' is not a host: expected name:slots"},
      {{"-np", "1", "-H", "me@a:2"},
       "-H me@a:2: 'me@a:2' is not a host: expected name:slots, with commas between hosts, as in "
       "localhost:4; give the user with --ssh-user"},
      {{"-np", "1", "--cycle-time", "1"}, "--cycle-time: unknown option; did you mean --cycle-time-ms?"},
      {{"-H", "a:1,,b"}, "-H a:1,,b: '' is not a host: expected name:slots"},
      {{"-H", "n[1-3"}, "-H n[1-3: 'n[1-3' is not a host"},
      {{"-np", "3", "-H", "localhost:2"},
       "-np 3 asks for more processes than localhost:2 has slots (2): lower -np"},
      {{"--hostfile", "/nowhere/f"}, "--hostfile /nowhere/f: cannot read it: No such file"},
      {{"--hostfile", bad}, "--hostfile " + bad + " line 3: 'localhost slots=many' is not a host"},
      {{"--hostfile", empty}, "--hostfile " + empty + " names no host"},
      {{"-np", "1", "-x", "NO_SUCH_VARIABLE"},
       "-x NO_SUCH_VARIABLE: not set in the environment of dabkerun: set it"},
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

TEST_CASE("where ssh is not there, or not what stands in for it, dabkerun says what to do") {
  const Finished without_ssh =
      LauncherRun({"-H", "other.invalid:1", "true"}, {.environment = {"PATH=/nowhere"}}).finish();
  CHECK(without_ssh.exit_code == 1);
  CHECK_THAT(without_ssh.error,
             StartsWith("dabkerun: host other.invalid: cannot run ssh: No such file or directory: install an "
                        "ssh client, or name a replacement with --remote-shell"));
  const Finished job = run({"-H", "other.invalid:1", "--remote-shell", "/nowhere/shell", "true"});
  CHECK(job.exit_code == 1);
  CHECK_THAT(job.error, StartsWith("dabkerun: host other.invalid: cannot run /nowhere/shell: No such file or "
                                   "directory: check --remote-shell"));
}

TEST_CASE("an agent that dials, started by hand, says that it is not for that") {
  const Finished agent = run({"--agent", "--dial"});
  CHECK(agent.exit_code == 1);
  CHECK(agent.error ==
        "dabkerun --agent --dial: stdin does not contain the launcher's address; --dial is only for srun\n");
}

TEST_CASE("a limit of descriptors that the job would exceed is told before anything is started") {
  // Descriptors that the test itself has inherited are closed.
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
        "dabkerun: 16 ranks need 80 file descriptors in dabkerun, but its hard limit is 79 (ulimit -Hn): "
        "raise that limit or start fewer ranks\n");
  CHECK(with_limit("80", "--stdin", "none").exit_code == 0);
  const TemporaryDirectory directory;
  CHECK(with_limit("111", "--output-filename", directory.path()).exit_code == 1);
  CHECK_FALSE(std::filesystem::exists(directory.path() + "/rank.00"));
  CHECK(with_limit("112", "--output-filename", directory.path()).exit_code == 0);
  const std::string three = "exec 5</dev/null 6</dev/null 7</dev/null;";
  CHECK(with_limit("114", "--output-filename", directory.path(), three).error ==
        "dabkerun: 16 ranks need 112 file descriptors in dabkerun besides 3 that it inherited, but its hard "
        "limit is 114 (ulimit -Hn): raise that limit or start fewer ranks\n");
  CHECK(with_limit("115", "--output-filename", directory.path(), three).exit_code == 0);
}

TEST_CASE("when dabkerun has no memory left it says so in a sentence, and its ranks end") {
  if (test::kSanitized) DABKE_SKIP("a sanitizer reserves more than any limit of address space");
  const TemporaryDirectory directory;
  LauncherRun launcher({"-c", "ulimit -s 256 -v 32000; exec \"$0\" -np 40 \"$1\" hold \"$2\"", DABKERUN,
                        kWorker, directory.path()},
                       {.program = "bash"});
  const Finished job = launcher.finish();
  CHECK(job.exit_code == 1);
  CHECK_THAT(job.error, StartsWith("dabkerun: out of memory (see ulimit -v "));
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

}  // namespace dabke::test

// The information that the real dabkerun prints without starting anything.
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
using Words = std::vector<std::string>;

Finished run(const Words& arguments, const LauncherSetup& setup = {}) {
  return LauncherRun(arguments, setup).finish();
}

}  // namespace

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

TEST_CASE("a limit of file size is an error in printing information, not the end of dabkerun") {
  if (test::kSanitized) DABKE_SKIP("a sanitizer's own files exceed such a limit");
  const TemporaryDirectory directory;
  for (const char* flag : {"--version", "--help", "-cb"}) {
    const Finished job =
        LauncherRun({"-c", "ulimit -f 0; exec \"$0\" \"$1\" >\"$2/out\"", DABKERUN, flag, directory.path()},
                    {.program = "bash"})
            .finish();
    CHECK(job.exit_code == 1);
    CHECK(job.error == "dabkerun: cannot write to stdout: File too large\n");
  }
}

TEST_CASE("a dry run says what would run where, and starts nothing") {
  const Finished dry = run({"--dry-run", "-H", "localhost:2,server.invalid:3", "-np", "4", "--cycle-time-ms",
                            "2", "--ssh-user", "me", "--remote-dabkerun", "/opt/dabkerun", "true", "a b"});
  CHECK(dry.exit_code == 0);
  CHECK(dry.error == "");
  CHECK_THAT(
      dry.out,
      StartsWith("Nothing is started. The hosts come from -H.\nhost localhost (this one): 2 slots, ranks "
                 "0-1\nhost server.invalid: 3 slots, ranks 2-3\n  its agent: ssh -T -o BatchMode=yes ") &&
          Contains(
              " -l me -- server.invalid 'exec /opt/dabkerun --agent'\neach rank runs: true 'a b'\n  in: /") &&
          Catch::EndsWith(
              "\n  with: DABKE_CYCLE_TIME=2\n  bound: to its own share of the cores, unless another job may "
              "share the host (auto)\n  standard input: rank 0 reads dabkerun's\n"));
  const Finished more =
      run({"--dry-run", "-np", "3", "-x", "PATH", "-x", "A=1", "-x", "MODE@0-1,2=fast", "--bind-to", "none",
           "--stdin", "none", "--output-filename", "/nowhere/out", "true"});
  CHECK(more.exit_code == 0);
  CHECK_THAT(more.out,
             Contains("\n  with: PATH, as it is here\n  with: A=1\n  with: MODE=fast on ranks 0-1,2\n") &&
                 Catch::EndsWith("  bound: to nothing\n  standard input: nothing\n  its output: also in "
                                 "/nowhere/out/rank.<rank>/stdout and stderr\n"));
  CHECK(run({"--dry-run", "-np", "1", "no-such-program"}).exit_code == 127);
}

}  // namespace dabke::test

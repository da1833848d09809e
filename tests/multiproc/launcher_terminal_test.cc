// The real dabkerun at a terminal.
#include <signal.h>

#include <catch2/catch.hpp>

#include "launcher_run.h"
#include "terminal.h"
#include "tests/patience.h"

namespace dabke {
namespace {

using test::kPatience;
using Words = std::vector<std::string>;

const std::string kWorker = LAUNCHER_WORKER;
const std::string kControlS = "\x13";

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
  REQUIRE(is_gone_within(launcher.pid(), kPatience));
  CHECK(launcher.finish().exit_code == 128 + SIGTERM);
}

}  // namespace dabke

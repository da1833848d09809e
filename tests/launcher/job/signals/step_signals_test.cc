#include "launcher/job/signals/step_signals.h"

#include <signal.h>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

const SignalSender kSlurm{71, "pid 71 (slurmstepd)", true};
const SignalSender kOtherSlurm{93, "pid 93 (slurmstepd)", true};
const SignalSender kShell{15, "pid 15 (bash)"};

/// dabkerun, and the agents of two other hosts.
constexpr char kLauncher{}, kOne{}, kTwo{};

}  // namespace

TEST_CASE("what a batch system sends to all processes of a step is one signal for the ranks") {
  StepSignals signals;
  const TimePoint begin{};
  const auto is_another = [&](const void* process, const std::string& host, int ms) {
    return signals.is_another(SIGUSR1, process, host, host == "a" ? kSlurm : kOtherSlurm,
                              begin + std::chrono::milliseconds(ms));
  };
  CHECK(is_another(&kOne, "a", 0));
  CHECK_FALSE(is_another(&kTwo, "b", 2900));
  CHECK(is_another(&kTwo, "b", 3000));  // a second signal for the step
  CHECK_FALSE(is_another(&kOne, "a", 3100));
  CHECK(is_another(&kOne, "a", 3200));
  CHECK(is_another(&kTwo, "b", 9000));  // after a long pause
}

TEST_CASE("several signals for a step stay as many, in whatever order the hosts tell of them") {
  StepSignals signals;
  int passed_on = 0;
  for (const void* const process : {&kOne, &kOne, &kTwo, &kTwo, &kTwo, &kOne})
    passed_on += signals.is_another(SIGUSR1, process, process == &kOne ? "a" : "b", kSlurm, {}) ? 1 : 0;
  CHECK(passed_on == 3);
}

TEST_CASE("what somebody else sends meanwhile, or another signal, is another one") {
  StepSignals signals;
  CHECK(signals.is_another(SIGUSR1, &kOne, "a", kSlurm, {}));
  CHECK(signals.is_another(SIGUSR1, &kLauncher, "", kShell, {}));
  CHECK_FALSE(signals.is_another(SIGUSR1, &kTwo, "", kShell, {}));  // an agent on this host, by pkill
  CHECK(signals.is_another(SIGUSR1, &kOne, "a", kShell, {}));       // another process with the same number
  CHECK(signals.is_another(SIGUSR2, &kOne, "a", kSlurm, {}));
}

}  // namespace dabke::test

#include "launcher/cli/started_once.h"

#include <cstdlib>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "runtime/bootstrap/other_launchers.h"

namespace dabke::launcher {
namespace {

std::optional<bootstrap::OtherLauncher> launcher_of(const Environment& environment) {
  const std::string size = environment("DABKE_SIZE").value_or("1");
  if (size != "1" && environment("DABKE_JOB_ID"))
    return bootstrap::OtherLauncher{
        .name = "dabkerun", .evidence = "DABKE_SIZE is " + size, .size = std::atoi(size.c_str())};
  auto found = bootstrap::find_other_launcher(environment);
  // Container platforms set WORLD_SIZE and RANK too, and a user may start dabkerun in a single one of the
  // containers.
  if (found && found->name.starts_with("torchrun") && !environment("TORCHELASTIC_RUN_ID")) found.reset();
  return found;
}

}  // namespace

Status check_started_once(const Environment& environment) {
  const auto launcher = launcher_of(environment);
  if (!launcher || launcher->size < 2) return {};
  return {
      Code::invalid_argument,
      fmt::format("{} has started dabkerun {}{} times ({}), and each would start a job: start dabkerun once, "
                  "without that launcher, or start the program with that launcher, without dabkerun. To "
                  "start another job from one rank, remove these variables from its environment (env -u)",
                  launcher->name, launcher->size_is_known ? "" : "at least ", launcher->size,
                  launcher->evidence)};
}

}  // namespace dabke::launcher

#include "launcher/cli/launch.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <variant>

#include <fmt/format.h>

#include "launcher/cli/job_plan.h"
#include "launcher/cli/run_job.h"
#include "launcher/cli/surroundings.h"
#include "launcher/process/process_setup.h"
#include "runtime/base/status.h"

namespace dabke::launcher {
namespace {

void log(const std::string& line) { fmt::print(stderr, "dabkerun: {}\n", line); }

}  // namespace

int print_text(const std::string& text) {
  ::signal(SIGXFSZ, SIG_IGN);  // then a limit of file size (ulimit -f) is an error of fwrite()
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (is_written && std::fflush(stdout) == 0) return 0;
  log(system_error("cannot write to stdout", errno).message());
  return 1;
}

int launch(const Options& options) {
  const InheritedState inherited = prepare_process();
  const Planning planning = plan_job(options, own_surroundings(inherited));
  for (const std::string& notice : planning.notices) log(notice);
  if (const auto* refusal = std::get_if<JobRefusal>(&planning.result)) {
    log(refusal->message);
    return refusal->exit_code;
  }
  return run_job(options, std::get<JobPlan>(planning.result), inherited);
}

}  // namespace dabke::launcher

#include "launcher/cli/surroundings.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "launcher/cli/job_setup.h"

namespace dabke::launcher {
namespace {

/// Returns the number of descriptors that were left open for dabkerun, apart from the standard streams.
rlim_t inherited_descriptors() {
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/self/fd", error);
  rlim_t open = 0;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) ++open;
  const rlim_t known = STDERR_FILENO + 2;  // one is the iterator's own
  return open > known ? open - known : 0;
}

}  // namespace

Surroundings own_surroundings(const InheritedState& inherited) {
  return {.environment = own_environment(),
          .own_program = own_program(),
          .is_stdout_terminal = ::isatty(STDOUT_FILENO) == 1,
          .is_stderr_terminal = ::isatty(STDERR_FILENO) == 1,
          .most_descriptors = inherited.open_files.rlim_max,
          .inherited_descriptors = inherited_descriptors(),
          .directory = [] { return std::filesystem::current_path().string(); },
          .find_hosts = [](const Options& options) { return hosts_of_job(options, process_environment()); },
          .find_program = find_program};
}

}  // namespace dabke::launcher

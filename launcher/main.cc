#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "launcher/agent/agent.h"
#include "launcher/agent/dial.h"
#include "launcher/cli/build_report.h"
#include "launcher/cli/doctor.h"
#include "launcher/cli/flags/help.h"
#include "launcher/cli/flags/options.h"
#include "launcher/cli/launch.h"
#include "runtime/base/settings/config.h"

namespace {

/// Opens closed standard descriptors, because a pipe of a rank must not get their numbers.
void open_standard_descriptors() {
  for (int fd = 0; fd < 3; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)!::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  }
}

int run(const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{"--agent"}) return dabke::launcher::run_agent_here();
  if (arguments == std::vector<std::string>{"--agent", "--dial"})
    return dabke::launcher::run_agent_by_dialling();
  const auto options = dabke::launcher::parse_command_line(arguments, dabke::process_environment());
  if (!options.is_ok()) {
    fmt::print(stderr, "dabkerun: {}\n", options.status().message());
    return 2;
  }
  switch (options->action) {
    case dabke::launcher::Action::help:
      return dabke::launcher::print_text(
          dabke::launcher::help_text(options->command.empty() ? "" : options->command.front()));
    case dabke::launcher::Action::version:
      return dabke::launcher::print_text(dabke::launcher::version_text());
    case dabke::launcher::Action::check_build:
      return dabke::launcher::print_text(dabke::launcher::build_report());
    case dabke::launcher::Action::print_knobs: return dabke::launcher::print_text(dabke::knobs_as_markdown());
    case dabke::launcher::Action::print_completion:
      return dabke::launcher::print_text(dabke::launcher::completion_script());
    case dabke::launcher::Action::doctor: return dabke::launcher::run_doctor(*options);
    case dabke::launcher::Action::run: break;
  }
  return dabke::launcher::launch(*options);
}

/// Ends dabkerun. The supervisors notice that their agent is gone, and end the ranks. Signals then end
/// dabkerun like any program, in case writing its message blocks.
int end_with(const char* why) {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const char* text : {"dabkerun: ", why, "; ending all that it has started\n"})
    (void)!::write(2, text, std::char_traits<char>::length(text));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::bad_alloc&) {
    return end_with("out of memory (see ulimit -v and the limit of the control group)");
  } catch (const std::exception& error) {
    return end_with(error.what());  // stdout is full
  }
}

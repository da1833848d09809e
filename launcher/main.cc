#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "launcher/agent/agent.h"
#include "launcher/cli/build_report.h"
#include "launcher/cli/launch.h"
#include "launcher/cli/options.h"
#include "runtime/base/config.h"

namespace {

/// Whoever started dabkerun may have closed them; a pipe of a rank must not take their place.
void open_standard_descriptors() {
  for (int fd = 0; fd < 3; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)!::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  }
}

int print(const std::string& text) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (is_written && std::fflush(stdout) == 0) return 0;
  fmt::print(stderr, "dabkerun: cannot write to stdout: {}\n", std::generic_category().message(errno));
  return 1;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{"--agent"}) return dabke::run_agent_here();
  const auto options = dabke::parse_command_line(arguments);
  if (!options.is_ok()) {
    fmt::print(stderr, "dabkerun: {}\n", options.status().message());
    return 2;
  }
  switch (options->action) {
    case dabke::Action::help: return print(dabke::help_text());
    case dabke::Action::version: return print(dabke::version_text());
    case dabke::Action::check_build: return print(dabke::build_report());
    case dabke::Action::print_knobs: return print(dabke::knobs_as_markdown());
    case dabke::Action::run: break;
  }
  return dabke::launch(*options);
}

/// The supervisors see that nobody listens to them any more, and end the ranks. Signals end dabkerun as they
/// end any program, should nobody take its last words.
int end_with(const char* why) {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const char* text : {"dabkerun: ", why, "; what it has started is being ended\n"})
    (void)!::write(2, text, std::char_traits<char>::length(text));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::bad_alloc&) {
    return end_with("no memory is left (see ulimit -v, and the limit of the control group)");
  } catch (const std::exception& error) {
    return end_with(error.what());  // stdout is full
  }
}

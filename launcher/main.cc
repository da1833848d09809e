#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "launcher/build_report.h"
#include "launcher/launch.h"
#include "launcher/options.h"
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

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    // Out of memory, or stdout is full; the supervisors see the end of this process and end the ranks.
    (void)!::write(2, "dabkerun: ", 10);
    (void)!::write(2, error.what(), std::char_traits<char>::length(error.what()));
    (void)!::write(2, "\n", 1);
    return 1;
  }
}

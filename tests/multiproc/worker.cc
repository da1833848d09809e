#include "worker.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>

namespace worker {
namespace {

int number_in(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? 0 : std::atoi(value);
}

void pretend_hosts() {
  const int each = number_in("DABKE_TEST_RANKS_PER_HOST");
  if (each == 0) return;
  ::setenv("DABKE_HOSTNAME", ("host-" + std::to_string(number_in("DABKE_RANK") / each)).c_str(), 1);
}

void write_line(int fd, const std::string& line) {
  const std::string text = line + "\n";
  if (::write(fd, text.data(), text.size()) < 0) std::abort();
}

}  // namespace

void wrong(const std::string& text) {
  write_line(STDERR_FILENO, "rank " + std::to_string(number_in("DABKE_RANK")) + ": " + text);
  std::_Exit(1);
}

void say(const std::string& line) { write_line(STDOUT_FILENO, line); }

int run_scenario(int argc, char** argv, std::span<const Scenario> scenarios) {
  pretend_hosts();
  const std::string name = argc > 1 ? argv[1] : "";
  const auto found = std::ranges::find(scenarios, name, &Scenario::name);
  if (found == scenarios.end()) {
    write_line(STDERR_FILENO, "no scenario '" + name + "'");
    return 2;
  }
  try {
    found->run();
  } catch (const std::exception& error) {
    wrong(error.what());
  }
  say("done");
  return 0;
}

}  // namespace worker

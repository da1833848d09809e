#include "worker.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <initializer_list>

namespace worker {
namespace {

/// The number in the first of the variables that is set.
int number_in(std::initializer_list<const char*> variables) {
  for (const char* variable : variables) {
    if (const char* value = std::getenv(variable)) return std::atoi(value);
  }
  return 0;
}

void pretend_hosts() {
  const int each = number_in({"DABKE_TEST_RANKS_PER_HOST"});
  if (each == 0) return;
  ::setenv("DABKE_HOSTNAME", ("host-" + std::to_string(launched_rank() / each)).c_str(), 1);
}

void write_line(int fd, const std::string& line) {
  const std::string text = line + "\n";
  if (::write(fd, text.data(), text.size()) < 0) std::abort();
}

}  // namespace

int launched_rank() { return number_in({"DABKE_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"}); }

int launched_size() { return number_in({"DABKE_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}); }

void wrong(const std::string& text) {
  write_line(STDERR_FILENO, "rank " + std::to_string(launched_rank()) + ": " + text);
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

// A rank that runs allreduces without end, and prints a line when it has noticed that another rank is gone.
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "dabke/dabke.hpp"

namespace {

/// The time of a clock that all processes of a host share and that is never set.
double seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Prints a line in one write, so that no part of it is in a buffer when the process is killed.
void say(const std::string& line) {
  const std::string text = line + "\n";
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t bytes = 4096;
  bool ignores_term = false;
  int waits_for = -1;
  CLI::App app("A rank for benchmarks/faults.py, which starts and kills it.");
  app.add_option("--bytes", bytes, "Of each float32 tensor")->capture_default_str();
  app.add_flag("--ignores-sigterm", ignores_term, "As a program does that hangs");
  app.add_option("--waits-for", waits_for, "A rank that does not come to the second call");
  CLI11_PARSE(app, argc, argv);

  if (ignores_term) std::signal(SIGTERM, SIG_IGN);
  const dabke::Session session;
  try {
    std::vector<float> x(bytes / sizeof(float), 0);
    dabke::allreduce("x", x);
    say("ready " + std::to_string(getpid()));
    if (dabke::rank() == waits_for) pause();
    while (true) dabke::allreduce("x", x);
  } catch (const dabke::Error& error) {
    char time[32];
    std::snprintf(time, sizeof time, "%.6f", seconds_now());
    say(std::string("knew ") + time + " " + error.what());
    if (ignores_term) {
      while (true) pause();
    }
    return 3;
  }
}

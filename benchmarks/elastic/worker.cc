// A process of an elastic job for benchmarks/elastic.py. Each step is an allreduce and a commit.
//
// Prints lines with the time at which each event ended, by a clock that all processes of a host share:
//   epoch 2 rank 0 of 3 worker 1 at 12.345678
//   step 2 rank 0 at 12.345678          the first step of the epoch
//   error 1 rank 0 at 12.345678         a step of the epoch has failed
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "dabke/dabke.hpp"

namespace {

struct Options {
  std::size_t bytes = 4096;
  unsigned pause_us = 1000;
  int steps = 20;
  std::uint64_t last_epoch = 2;
};

/// The time of a clock that all processes of a host share and that is never set.
double seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Prints a line in one write, so that no part of it is in a buffer when the process is killed.
void say(std::string line) {
  line += '\n';
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) std::abort();
}

void say_epoch(const dabke::Epoch& epoch) {
  const double now = seconds_now();
  const char* const worker = std::getenv("DABKE_ELASTIC_WORKER");
  say(fmt::format("epoch {} rank {} of {} worker {} at {:.6f}", epoch.number, epoch.rank, epoch.size,
                  worker != nullptr ? worker : "-", now));
}

/// Runs steps until hosts change. False: the last epoch has had its steps, and the program ends.
bool train(const Options& options, const dabke::Epoch& epoch, std::uint64_t& commit) {
  std::vector<float> x(options.bytes / sizeof(float), 0);
  for (int step = 0; dabke::announced_changes() == 0; ++step) {
    if (step == options.steps && epoch.number >= options.last_epoch) return false;
    dabke::allreduce("x", x);
    if (step == 0) say(fmt::format("step {} rank {} at {:.6f}", epoch.number, epoch.rank, seconds_now()));
    ++commit;
    usleep(options.pause_us);
  }
  return true;
}

void run(const Options& options) {
  const dabke::Session session;
  std::uint64_t commit = 0;
  dabke::Epoch epoch = dabke::current_epoch();
  while (!epoch.left) {
    say_epoch(epoch);
    if (epoch.newest_commit) commit = *epoch.newest_commit;
    try {
      if (!train(options, epoch, commit)) return;
    } catch (const dabke::Error& error) {
      say(fmt::format("error {} rank {} at {:.6f} {}", epoch.number, epoch.rank, seconds_now(),
                      error.what()));
    }
    epoch = dabke::next_epoch(commit > 0 ? std::optional(commit) : std::nullopt);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("A process of an elastic job. benchmarks/elastic.py starts and kills it.");
  app.add_option("--bytes", options.bytes, "The size of the float32 tensor of a step")->capture_default_str();
  app.add_option("--pause-us", options.pause_us, "The pause after each step")->capture_default_str();
  app.add_option("--steps", options.steps, "The steps of the last epoch")->capture_default_str();
  app.add_option("--last-epoch", options.last_epoch, "The program ends in this epoch or a later one")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
    return 0;
  } catch (const dabke::Error& error) {
    say(std::string("failed: ") + error.what());
    return 1;
  }
}

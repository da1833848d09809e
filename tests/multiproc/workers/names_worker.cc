// New names without end, as in a program that numbers its tensors.
//
//   names_worker COUNT all|two
//
// With "two", the last rank does not take part until the end. Each working rank prints two values, for the
// first quarter of the job and for the last one:
// - the processor time of a step, in the best of some blocks
// - the memory of the process at the end of the quarter
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "dabke/dabke.hpp"
#include "worker.h"

namespace {

constexpr int kQuarters = 4;
constexpr int kBlocks = 25;  // in a quarter of the job

int count = 0;
bool all_work = false;

long resident_kib() {
  long pages = 0;
  std::ifstream statm("/proc/self/statm");
  statm >> pages >> pages;
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/// The processor time of this process. The wall time of a step would depend on the load of the machine.
double processor_us() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return 1e6 * static_cast<double>(used.tv_sec) + 1e-3 * static_cast<double>(used.tv_nsec);
}

struct Quarter {
  double best_us = std::numeric_limits<double>::infinity();
  long kib = 0;
};

Quarter run_quarter(int& name, dabke_process_set set) {
  Quarter quarter;
  std::vector<float> x(1);
  for (int block = 0; block < kBlocks; ++block) {
    const double begin = processor_us();
    const int steps = count / kQuarters / kBlocks;
    for (int step = 0; step < steps; ++step) {
      x[0] = 1;
      dabke::allreduce("tensor." + std::to_string(name++), x, {.process_set = set, .op = DABKE_SUM});
      if (x[0] != static_cast<float>(all_work ? dabke::size() : 2)) worker::wrong("a sum is wrong");
    }
    quarter.best_us = std::min(quarter.best_us, (processor_us() - begin) / steps);
  }
  quarter.kib = resident_kib();
  return quarter;
}

void names() {
  const dabke::Session session;
  const auto set = all_work ? DABKE_WORLD : dabke::add_process_set(std::vector<std::int32_t>{0, 1});
  if (all_work || dabke::rank() < 2) {
    int name = 0;
    Quarter quarters[kQuarters];
    for (Quarter& quarter : quarters) quarter = run_quarter(name, set);
    const auto words = [](const Quarter& quarter) {
      return std::to_string(quarter.best_us) + " us " + std::to_string(quarter.kib) + " KiB";
    };
    worker::say("then " + words(quarters[0]) + ", now " + words(quarters[3]));
  }
  dabke::barrier();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  count = std::atoi(argv[1]);
  all_work = std::strcmp(argv[2], "all") == 0;
  std::string name = "names";
  char* arguments[] = {argv[0], name.data(), nullptr};
  constexpr worker::Scenario kScenarios[] = {{"names", names}};
  return worker::run_scenario(2, arguments, kScenarios);
}

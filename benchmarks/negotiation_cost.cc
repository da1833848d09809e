// The cost of the negotiation for a job, over each control channel in turn.
//
//   dabkerun -np 2 build/benchmarks/negotiation_cost        (shared memory and TCP)
//   mpirun -np 2 build/benchmarks/negotiation_cost          (MPI as well)
//
// 1. Latency: blocking allreduces of 8 bytes. "call" is the whole of one. "to order" is from the submit to
//    the arrival of the order: the shortest (this rank was the last to submit) and the average.
// 2. Work: steps of many tensors of 1 KB. CPU time of the coordinator thread for
//    each tensor, and the time of a step.
//
// Prints the results of rank 0: medians over the rounds.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "dabke/dabke.hpp"

using Clock = std::chrono::steady_clock;

namespace {

struct Seen {
  std::vector<double> call_us, shortest_us, average_us, cpu_us_per_tensor, step_ms;
};

struct Work {
  int calls = 3000;
  int tensors = 10'000;
  int steps = 5;
};

dabke_statistics statistics() {
  dabke_statistics now{};
  now.struct_size = sizeof now;
  dabke::detail::check(dabke_get_statistics(&now));
  return now;
}

/// The time that the thread of this name has spent on a core so far.
double cpu_seconds(const std::string& name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, comm);
    double ns = 0;
    if (comm == name && std::ifstream(task.path() / "schedstat") >> ns) return ns * 1e-9;
  }
  return 0;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

void measure_latency(const Work& work, Seen& seen) {
  std::vector<float> x(2, 1);
  for (int i = 0; i < work.calls / 10; ++i) dabke::allreduce("x", x);
  const dabke_statistics before = statistics();
  std::vector<double> calls;
  for (int i = 0; i < work.calls; ++i) {
    const auto begin = Clock::now();
    dabke::allreduce("x", x);
    calls.push_back(microseconds_since(begin));
  }
  const dabke_statistics after = statistics();
  seen.call_us.push_back(median(calls));
  seen.shortest_us.push_back(after.fastest_negotiation_seconds * 1e6);
  seen.average_us.push_back((after.negotiation_seconds - before.negotiation_seconds) / work.calls * 1e6);
}

void measure_work(const Work& work, Seen& seen) {
  std::vector<std::vector<float>> data(static_cast<std::size_t>(work.tensors), std::vector<float>(256, 1));
  std::vector<std::string> names;
  for (int i = 0; i < work.tensors; ++i) names.push_back("tensor." + std::to_string(i));
  std::vector<dabke::Handle> pending;
  const auto step = [&] {
    pending.clear();
    for (std::size_t i = 0; i < data.size(); ++i)
      pending.push_back(dabke::allreduce_async(names[i], data[i]));
    for (dabke::Handle& handle : pending) handle.wait();
  };
  for (int i = 0; i < 4; ++i) step();
  const double before = cpu_seconds("dabke-coord");
  const auto begin = Clock::now();
  for (int i = 0; i < work.steps; ++i) step();
  const double ms = microseconds_since(begin) / 1000;
  const double cpu = cpu_seconds("dabke-coord") - before;
  seen.step_ms.push_back(ms / work.steps);
  seen.cpu_us_per_tensor.push_back(cpu * 1e6 / work.steps / work.tensors);
}

}  // namespace

int main(int argc, char** argv) {
  Work work;
  int rounds = 5;
  CLI::App app("What the negotiation costs, over each control channel.");
  app.add_option("--calls", work.calls, "Blocking calls in a round")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--tensors", work.tensors, "Tensors of 1 KB in a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--steps", work.steps, "Steps in a round")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--rounds", rounds, "Turns of each channel")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  std::vector<std::string> channels = {"shm", "tcp"};
  if (std::getenv("DABKE_RANK") == nullptr &&
      (std::getenv("PMI_RANK") || std::getenv("OMPI_COMM_WORLD_RANK")))
    channels.emplace_back("mpi");
  std::vector<Seen> seen(channels.size());
  int rank = 0, size = 1;
  try {
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < channels.size(); ++i) {
        const std::string setting = "CONTROLLER=" + channels[i];
        const char* const settings[] = {setting.c_str(), nullptr};
        dabke_init_options options = DABKE_INIT_OPTIONS_INIT;
        options.settings = settings;
        const dabke::Session session(&options);
        rank = dabke::rank();
        size = dabke::size();
        measure_latency(work, seen[i]);
        measure_work(work, seen[i]);
        dabke::barrier();
      }
    }
  } catch (const dabke::Error& error) {
    fmt::print(stderr, "negotiation_cost: {}\n", error.what());
    return 1;
  }
  if (rank != 0) return 0;
  fmt::print("{} ranks, {} rounds; 8-byte allreduce: {} calls; steps of {} tensors of 1 KB: {}\n\n", size,
             rounds, work.calls, work.tensors, work.steps);
  fmt::print(
      "| channel | call, us | to order, us: shortest | on average | coordinator CPU, us a tensor | step, ms "
      "|\n"
      "|---|---|---|---|---|---|\n");
  for (std::size_t i = 0; i < channels.size(); ++i) {
    fmt::print("| {} | {:.1f} | {:.1f} | {:.1f} | {:.2f} | {:.1f} |\n", channels[i], median(seen[i].call_us),
               median(seen[i].shortest_us), median(seen[i].average_us), median(seen[i].cpu_us_per_tensor),
               median(seen[i].step_ms));
  }
  return 0;
}

// Training steps of a model without the training. Gradients become ready one after the other, as in a
// backward pass on an accelerator (the thread sleeps meanwhile). Each is given to allreduce at once, and
// the step ends when all are reduced.
//
//   dabkerun -np 2 build/benchmarks/gradient_steps --model benchmarks/models/resnet50.txt --backward-ms 60
//
// Prints, for each way of making batches, the time of a step beyond the backward pass ("exposed": the time
// for which training waits). The ways take turns in one run, each in an init of its own, so a noisy
// machine disturbs all of them equally.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "benchmarks/gradient_model.h"
#include "dabke/dabke.hpp"

using namespace dabke::perf;
using Clock = std::chrono::steady_clock;

namespace {

struct Way {
  const char* name;
  std::vector<const char*> settings;
};

const std::vector<Way>& ways() {
  static const std::vector<Way> all = {
      {"learned batches", {nullptr}},
      {"adaptive linger", {"DISABLE_LEARNED_BATCHES=1", nullptr}},
      {"linger 1 ms", {"DISABLE_LEARNED_BATCHES=1", "CYCLE_TIME=1", nullptr}},
      {"no fusion", {"DISABLE_LEARNED_BATCHES=1", "FUSION_THRESHOLD=0", nullptr}},
  };
  return all;
}

struct Job {
  std::vector<Gradient> model;
  std::vector<std::vector<float>> data;
  double backward_ms = 60;
  int warm_up = 12;
  int steps = 20;
};

struct Seen {
  std::vector<double> exposed_ms;
  std::uint64_t batches = 0, messages = 0, steps = 0;
};

/// The time of one step in ms.
double run_step(Job& job) {
  const auto begin = Clock::now();
  const std::size_t count = job.model.size();
  std::size_t elements_all = 0, elements = 0;
  for (const Gradient& gradient : job.model) elements_all += gradient.elements;
  std::vector<dabke::Handle> pending;
  pending.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    // Half of the backward pass is divided by the number of parameters, half by layer.
    elements += job.model[i].elements;
    const double share = 0.5 * static_cast<double>(elements) / static_cast<double>(elements_all) +
                         0.5 * static_cast<double>(i + 1) / static_cast<double>(count);
    const auto ready = begin + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double, std::milli>(job.backward_ms * share));
    const auto left = ready - Clock::now();
    if (left > std::chrono::microseconds(50)) {
      const auto ns = std::chrono::nanoseconds(left).count();
      const timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
      ::nanosleep(&time, nullptr);
    }
    pending.push_back(dabke::allreduce_async(job.model[i].name, job.data[i]));
  }
  for (dabke::Handle& handle : pending) handle.wait();
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

dabke_statistics statistics() {
  dabke_statistics now{};
  now.struct_size = sizeof now;
  dabke::detail::check(dabke_get_statistics(&now));
  return now;
}

void run_way(Job& job, const Way& way, Seen& seen) {
  dabke_init_options options = DABKE_INIT_OPTIONS_INIT;
  options.settings = way.settings.data();
  const dabke::Session session(&options);
  for (int i = 0; i < job.warm_up; ++i) run_step(job);
  dabke::barrier();
  const dabke_statistics before = statistics();
  for (int i = 0; i < job.steps; ++i) seen.exposed_ms.push_back(run_step(job) - job.backward_ms);
  const dabke_statistics after = statistics();
  seen.batches += after.batches - before.batches;
  seen.messages +=
      after.messages_sent + after.messages_received - before.messages_sent - before.messages_received;
  seen.steps += static_cast<std::uint64_t>(job.steps);
  dabke::barrier();
}

double at(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

}  // namespace

int main(int argc, char** argv) {
  Job job;
  std::string path;
  int rounds = 3;
  CLI::App app("Steps of a model's gradients over the job's ranks, for each way of making batches.");
  app.add_option("--model", path, "File of names and shapes, such as benchmarks/models/resnet50.txt")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--backward-ms", job.backward_ms, "Length of the backward pass in ms")
      ->capture_default_str();
  app.add_option("--steps", job.steps, "Steps measured in each round")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--warm-up", job.warm_up, "Steps before them")->capture_default_str();
  app.add_option("--rounds", rounds, "Turns of each way")->check(CLI::PositiveNumber)->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  job.model = read_model(path);
  std::size_t elements = 0;
  for (const Gradient& gradient : job.model) {
    job.data.emplace_back(gradient.elements, 1.0f);
    elements += gradient.elements;
  }
  std::vector<Seen> seen(ways().size());
  int rank = 0, size = 1;
  try {
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < ways().size(); ++i) run_way(job, ways()[i], seen[i]);
    }
    const dabke::Session session;
    rank = dabke::rank();
    size = dabke::size();
  } catch (const dabke::Error& error) {
    fmt::print(stderr, "gradient_steps: {}\n", error.what());
    return 1;
  }
  if (rank != 0) return 0;
  fmt::print("{}: {} tensors, {:.1f} MB, {} ranks, backward pass of {} ms, {} rounds of {} steps\n\n",
             std::filesystem::path(path).stem().string(), job.model.size(),
             static_cast<double>(elements) * 4e-6, size, job.backward_ms, rounds, job.steps);
  fmt::print(
      "| batches | exposed ms, median | 10 % to 90 % | against the first | batches a step | messages a step "
      "|\n"
      "|---|---|---|---|---|---|\n");
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto a_step = [&](std::uint64_t all) {
      return static_cast<double>(all) / static_cast<double>(seen[i].steps);
    };
    fmt::print("| {} | {:.1f} | {:.1f} to {:.1f} | {:.2f} | {:.1f} | {:.1f} |\n", ways()[i].name,
               at(seen[i].exposed_ms, 0.5), at(seen[i].exposed_ms, 0.1), at(seen[i].exposed_ms, 0.9),
               at(seen[i].exposed_ms, 0.5) / at(seen[0].exposed_ms, 0.5), a_step(seen[i].batches),
               a_step(seen[i].messages));
  }
  return 0;
}

#include "tests/sim/scaling.h"

#include <cstdio>

#include <fmt/format.h>

#include "tests/sim/sim.h"

namespace dabke::test {
namespace {

using std::chrono::microseconds;

constexpr int kTensors = 500;
constexpr std::size_t kWarmUpSteps = 8;  // first use, learning, and some more
constexpr std::size_t kSteps = 3;
constexpr int kRanksPerHost = 8;
constexpr int kRadix = 8;
constexpr auto kHop = microseconds(20);
constexpr auto kBetween = microseconds(40);  // gradients become ready one after the other

struct Row {
  double root_messages = 0;  // received per batch
  double batches = 0;        // learned batches per step
  double most_bytes = 0;     // per step: the largest traffic on a rank's link to its parent, both ways
  double root_cpu_ms = 0;    // per step
  double latency_us = 0;     // from the last tensor ready on the last rank until its order is everywhere
};

/// Repeats all inputs on a root that runs alone. Returns the time of the fastest of the last steps.
double replay_ms(const std::vector<RootInput>& inputs, const std::vector<std::size_t>& step_begins,
                 negotiation::Negotiator::Options options,
                 std::shared_ptr<const negotiation::Topology> topology) {
  options.rank = negotiation::Negotiator::kRoot;
  options.topology = std::move(topology);
  negotiation::Negotiator root(std::move(options));
  double best_ms = 0;
  for (std::size_t step = 0; step < step_begins.size(); ++step) {
    const std::size_t end = step + 1 < step_begins.size() ? step_begins[step + 1] : inputs.size();
    const TimePoint start = Clock::now();
    for (std::size_t i = step_begins[step]; i < end; ++i) {
      const RootInput& input = inputs[i];
      switch (input.kind) {
        case RootInput::Kind::submit: root.submit(input.token, input.request, input.at); break;
        case RootInput::Kind::message: root.message_from(input.from, *input.message, input.at); break;
        case RootInput::Kind::tick: root.tick(input.at); break;
        case RootInput::Kind::settle:
          for (const DeviceType type : kDeviceTypes)
            root.set_data_plane_busy(type, input.busy.contains(type));
          (void)root.take_actions(input.at);
          break;
      }
    }
    (void)root.take_lateness();
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    if (step == kWarmUpSteps || (step > kWarmUpSteps && ms < best_ms)) best_ms = ms;
  }
  return best_ms;
}

Row measure(int ranks, int radix) {
  SimOptions options;
  options.ranks = ranks;
  options.ranks_per_host = kRanksPerHost;
  options.radix = radix;
  options.hop = kHop;
  options.jitter = 0.2;
  options.seconds_per_byte = 1e-10;  // the data plane keeps up
  options.negotiator.sequencer.learned_batch_bytes = 8 << 20;
  Sim sim(options);
  std::vector<RootInput> inputs;
  std::vector<std::size_t> step_begins;
  sim.record_root(inputs);
  std::vector<RequestRef> requests;
  for (int i = 0; i < kTensors; ++i) {
    Request request;
    request.name = fmt::format("layer{}.weight.grad", i);
    request.tensors = {{request.name, DType::f32, Shape{50'000}}};
    requests.push_back(std::make_shared<const Request>(std::move(request)));
  }
  Row row;
  std::uint64_t batches_before = 0;
  for (std::size_t step = 0; step < kWarmUpSteps + kSteps; ++step) {
    step_begins.push_back(inputs.size());
    if (step == kWarmUpSteps) {
      sim.forget_traffic();
      batches_before = sim.batches(0);
    }
    TimePoint last_ready{};
    TimePoint last_done{};
    std::vector<std::size_t> next(static_cast<std::size_t>(ranks));  // tensor, by rank
    std::function<void(Rank)> submit_next = [&](Rank rank) {
      last_ready = std::max(last_ready, sim.now());
      std::size_t& i = next[static_cast<std::size_t>(rank)];
      sim.submit(rank, requests[i],
                 [&sim, &last_done](const Completed&) { last_done = std::max(last_done, sim.now()); });
      if (++i < requests.size()) sim.after(kBetween, [&submit_next, rank] { submit_next(rank); });
    };
    for (Rank rank = 0; rank < ranks; ++rank) {
      const auto skew = microseconds(std::uniform_int_distribution<int>(0, 200)(sim.random()));
      sim.after(skew, [&submit_next, rank] { submit_next(rank); });
    }
    sim.run(std::chrono::seconds(10));
    if (sim.pending() > 0) throw Violation(fmt::format("{} operations never completed", sim.pending()));
    if (step >= kWarmUpSteps) {
      row.latency_us += std::chrono::duration<double, std::micro>(last_done - last_ready).count() / kSteps;
    }
  }
  const double batches = static_cast<double>(sim.batches(0) - batches_before);
  row.batches = batches / kSteps;
  row.root_cpu_ms = replay_ms(inputs, step_begins, options.negotiator, sim.topology());
  row.root_messages = static_cast<double>(sim.traffic(0).received_messages) / batches;
  for (Rank rank = 1; rank < ranks; ++rank) {
    row.most_bytes =
        std::max(row.most_bytes, static_cast<double>(sim.traffic(rank).parent_link_bytes) / kSteps);
  }
  return row;
}

}  // namespace

int print_scaling(int fewest_ranks, int most_ranks) {
  fmt::print(
      "{} tensors a step, all cached; {} ranks a host, radix {}, {} us a hop; over {} steps after {}\n\n",
      kTensors, kRanksPerHost, kRadix, kHop.count(), kSteps, kWarmUpSteps);
  fmt::print(
      "| ranks | form | depth | messages to the root, a batch | batches a step | bytes a rank and step | "
      "root CPU, ms a step | last ready to done, us |\n|---|---|---|---|---|---|---|---|\n");
  for (int ranks = fewest_ranks; ranks <= most_ranks; ranks *= 4) {
    for (const int radix : {kRadix, 0}) {
      const Row row = measure(ranks, radix);
      std::vector<std::string> hosts;
      for (int rank = 0; rank < ranks; ++rank) hosts.push_back(fmt::format("node{}", rank / kRanksPerHost));
      fmt::print("| {} | {} | {} | {:.1f} | {:.1f} | {:.0f} | {:.2f} | {:.0f} |\n", ranks,
                 radix == 0 ? "star" : "tree", negotiation::Topology(ranks, hosts, radix).depth(),
                 row.root_messages, row.batches, row.most_bytes, row.root_cpu_ms, row.latency_us);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace dabke::test

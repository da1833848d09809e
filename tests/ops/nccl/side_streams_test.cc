// DABKE_NUM_NCCL_STREAMS, on the doubles: tensors are packed and unpacked on
// streams of their own, beside collectives.
#include <atomic>
#include <span>
#include <thread>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "tests/ops/nccl/program_tensors.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

Config with_streams(int count) {
  Config config = quiet_config();
  config.num_nccl_streams = count;
  config.fusion_threshold = 1000;  // a pair below fits, and no more
  config.disable_learned_batches = true;
  return config;
}

/// The sums of some tensors. Each batch has two of them.
OperationRef sums_of(std::span<const Tensor<float>> tensors, const std::string& name,
                     const Behind& behind = {}) {
  OperationRef sums = sum_of(tensors.front().view(), name + ".0", behind);
  sums->request->name = name;
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const TensorView& view = tensors[i].view();
    sums->request->tensors.push_back({fmt::format("{}.{}", name, i), view.dtype, view.shape});
    sums->inputs.push_back(view);
    sums->outputs.push_back({});
  }
  return sums;
}

}  // namespace

TEST_CASE("results are right to the bit whatever takes its time, however many streams pack and unpack") {
  must(load_doubles());
  const int streams = GENERATE(1, 2, 3, 16);
  CAPTURE(streams);
  const Planned delays("", 23);
  Job job(setup_named("nccl"), 3, with_streams(streams));
  const auto wrong = job.run([](Rank& self) {
    constexpr int kCalls = 60;
    int bad = 0;
    for (int step = 1; step <= 3; ++step) {
      std::vector<std::vector<float>> sums(2 * kCalls);
      std::vector<std::vector<int>> rows(kCalls);
      std::vector<Pending> pending;
      for (int i = 0; i < kCalls; ++i) {
        auto& a = sums[static_cast<std::size_t>(2 * i)];
        auto& b = sums[static_cast<std::size_t>(2 * i + 1)];
        a.assign(static_cast<std::size_t>(i + 1), static_cast<float>(i * step));
        b.assign(static_cast<std::size_t>(i * step + 1), static_cast<float>(i));
        pending.push_back(self.start(CollectiveKind::allreduce, {{view_of(a)}, {view_of(b)}},
                                     {.name = fmt::format("sum {}", i)}));
        rows[static_cast<std::size_t>(i)].assign(static_cast<std::size_t>(self.rank() + 1), i);
        if (i % 5 == 0)
          pending.push_back(
              self.allgather_async(rows[static_cast<std::size_t>(i)], {.name = fmt::format("rows {}", i)}));
      }
      std::size_t next = 0;
      for (int i = 0; i < kCalls; ++i) {
        must(pending[next++].wait());
        const auto& a = sums[static_cast<std::size_t>(2 * i)];
        const auto& b = sums[static_cast<std::size_t>(2 * i + 1)];
        bad += a == std::vector(a.size(), static_cast<float>(3 * i * step)) ? 0 : 1;
        bad += b == std::vector(b.size(), static_cast<float>(3 * i)) ? 0 : 1;
        if (i % 5 != 0) continue;
        must(pending[next].wait());
        bad += pending[next++].output<int>() == std::vector<int>(6, i) ? 0 : 1;
      }
    }
    return bad;
  });
  CHECK(wrong == std::vector(3, 0));
}

TEST_CASE(
    "with two streams a batch is packed while the collective of the one before still waits for a rank") {
  must(load_doubles());
  std::atomic<bool> is_packed{false};
  std::atomic<bool> is_over{false};
  Job job(setup_named("nccl"), 2, with_streams(2));
  const auto seen = job.run([&](Rank& self) {
    const std::size_t count = 100;
    std::vector<Tensor<float>> tensors;
    for (int i = 0; i < 4; ++i) tensors.emplace_back(self, count);
    const auto first_pair = std::span<const Tensor<float>>(tensors).first(2);
    // The buffers are made here, and do not grow later.
    finish([&] {
      auto first = sums_of(first_pair, "first");
      must(self.runtime().submit(first));
      return first;
    }());
    const fake_cuda::Stream stream(self.rank());
    fake_cuda::Gate gate;
    if (self.rank() == 1) gate.hold(stream);
    for (int i = 0; i < 4; ++i) tensors[static_cast<std::size_t>(i)].fill(static_cast<float>(i + 1));
    const std::uint64_t before = kernels_run(0);
    const auto held = sums_of(first_pair, "held", {.stream = stream.handle()});
    const auto next = sums_of(std::span(tensors).subspan(2), "next");
    must(self.runtime().submit(held));
    must(self.runtime().submit(next));
    const TimePoint until = deadline_after(60);
    if (self.rank() == 0) {
      // No unpacking is among these kernels: the other rank has not written its data yet.
      while (kernels_run(0) < before + 2 && Clock::now() < until) std::this_thread::yield();
      is_packed = kernels_run(0) == before + 2 && !held->is_done();
      is_over = true;
    }
    while (!is_over && Clock::now() < until) std::this_thread::yield();
    gate.open();
    finish(held);
    finish(next);
    return std::vector<float>{*tensors[0].begin(), *tensors[1].begin(), *tensors[2].begin(),
                              *tensors[3].begin()};
  });
  CHECK(is_packed);
  CHECK(seen == std::vector(2, std::vector<float>{2, 4, 6, 8}));
}

TEST_CASE("an operation of several batches waits for its inputs in each, and ends behind them all") {
  must(load_doubles());
  const Planned delays("", 29);
  Job job(setup_named("nccl"), 2, with_streams(3));
  const auto wrong = job.run([](Rank& self) {
    const fake_cuda::Stream stream(self.rank());
    std::vector<Tensor<float>> tensors;
    for (int i = 0; i < 7; ++i) tensors.emplace_back(self, 100);
    int bad = 0;
    for (int step = 1; step <= 20; ++step) {
      for (const auto& tensor : tensors) tensor.write_on(stream, static_cast<float>(step));
      const auto sums = sums_of(tensors, "sums", {.stream = stream.handle()});
      must(self.runtime().submit(sums));
      finish(sums);
      for (const auto& tensor : tensors)
        bad += tensor.values() == std::vector(100, static_cast<float>(2 * step)) ? 0 : 1;
    }
    return bad;
  });
  CHECK(wrong == std::vector(2, 0));
}

}  // namespace dabke::test

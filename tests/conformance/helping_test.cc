// Threads that wait for a result drive the negotiation and run their batches, and nobody else's progress
// suffers.
#include <atomic>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/in_process/job.h"

namespace dabke::testing {

TEST_CASE("several threads of each rank block on collectives of their own while others run") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  constexpr int kSize = 3;
  constexpr int kThreads = 3;
  constexpr int kCalls = 60;
  Job job(backend, kSize);
  std::atomic<int> wrong = 0;
  job.run([&](Rank& self) {
    const auto blocks = [&](int thread) {
      for (int i = 0; i < kCalls; ++i) {
        std::vector<float> x(static_cast<std::size_t>(1 + i), static_cast<float>(self.rank() + thread));
        must(self.allreduce(x, {.name = fmt::format("thread {}", thread), .op = ReduceOp::sum}));
        if (x != std::vector<float>(x.size(), static_cast<float>(3 + kSize * thread))) ++wrong;
      }
    };
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(blocks, thread);
    for (int step = 0; step < 10; ++step) {  // meanwhile
      std::vector<std::vector<float>> data(20, std::vector<float>(100, 1));
      std::vector<Pending> pending;
      for (std::size_t i = 0; i < data.size(); ++i) {
        pending.push_back(
            self.allreduce_async(data[i], {.name = fmt::format("gradient {}", i), .op = ReduceOp::sum}));
      }
      for (const Pending& one : pending) must(one.wait());
      if (data != std::vector<std::vector<float>>(20, std::vector<float>(100, kSize))) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a blocking call ends with the cause when the job does, whoever drives") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  Job job(backend, 3);
  const auto seen = job.run([&](Rank& self) -> std::string {
    std::vector<float> x(10, 1);
    const Status before = self.allreduce(x, {.name = "before"});
    if (self.rank() == 2) {
      job.cut(2);
      return "";
    }
    if (!before.is_ok()) return before.message();  // rank 2 had all of it, and this rank not yet
    return self.allreduce(x, {.name = "never on rank 2"}).message();
  });
  CHECK_THAT(seen[0], Catch::Contains("rank 2"));
  CHECK_THAT(seen[1], Catch::Contains("rank 2"));
}

TEST_CASE("a blocking call and a shutdown of the same rank end each other") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  Job job(backend, 2);
  const auto seen = job.run([&](Rank& self) -> bool {
    std::atomic<bool> ended_badly = false;
    std::jthread blocked;
    if (self.rank() == 0) {
      blocked = std::jthread([&] {
        std::vector<float> x(10, 1);
        ended_badly = !self.allreduce(x, {.name = "only on rank 0"}).is_ok();
      });
    }
    self.close();
    if (blocked.joinable()) blocked.join();
    return self.rank() != 0 || ended_badly;
  });
  CHECK(seen == std::vector<bool>{true, true});
}

}  // namespace dabke::testing

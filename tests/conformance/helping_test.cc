// Threads that wait for a result drive the negotiation and run their batches,
// without delay for other threads and ranks.
#include <atomic>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/in_process/job.h"
#include "tests/patience.h"

namespace dabke::test {

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

TEST_CASE("a check that blocks delays no other rank, and is asked by the thread that waits alone") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const double limit = GENERATE(-1., 1e6);
  Job job(backend, 3);
  const auto asked = job.run([&](Rank& self) {
    const ProcessSetId others = self.add_process_set({1, 2});
    std::vector<float> late(10, 1), x(10, 1);
    int times = 0;
    if (self.rank() != 0) {
      // Ranks 1 and 2 negotiate through rank 0, before and while it blocks in its check.
      for (bool is_over = false; !is_over;) {
        must(self.allreduce(x, {.name = "x", .op = ReduceOp::max, .set = others}));
        std::vector<int> steps = {1};
        Pending step = self.allreduce_async(steps, {.name = "step"});
        must(step.wait());
        is_over = steps[0] != 2;
      }
      must(self.allreduce(late, {.name = "late"}));
      return times;
    }
    const auto here = std::this_thread::get_id();
    const Pending pending = self.allreduce_async(late, {.name = "late"});
    WaitCheck check(
        [&] {
          if (std::this_thread::get_id() != here) throw std::logic_error("another thread asks");
          // Takes part in three steps of the other ranks. The last step of the third check ends their loop.
          for (int i = 0; i < 3; ++i) {
            std::vector<int> steps = {times == 2 && i == 2 ? 1 : 0};
            const Pending step = self.allreduce_async(steps, {.name = "step"});
            while (!step.is_done()) std::this_thread::yield();
          }
          return ++times == 3;
        },
        [] { return std::string("late"); });
    if (pending.wait_checking(check, limit)) return -1;
    must(pending.wait());
    return times;
  });
  CHECK(asked[0] == 3);
}

TEST_CASE("what comes in the moment in which a waiter's time is up is dealt with all the same") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const TimePoint enough = deadline_after(8);  // a busy machine makes fewer steps
  const auto in_time = run_on_ranks(backend, 2, [&](Rank& self) {
    std::vector<int> x = {0};
    for (int step = 0; step < 500 && (step < 100 || x[0] == 0); ++step) {
      x[0] = Clock::now() < enough ? 0 : 1;
      // Rank 1 is late by 0 to 99 us.
      const TimePoint start = Clock::now() + std::chrono::microseconds(self.rank() * (step * 7 % 100));
      while (Clock::now() < start) std::this_thread::yield();
      const Pending pending = self.allreduce_async(x, {.name = "x"});
      WaitCheck goes_on([] { return false; }, [] { return std::string(); });
      if (pending.wait_checking(goes_on, 20e-6)) continue;
      // No waiting thread helps from here on.
      if (pending.wait_for(std::chrono::duration<double>(test::kPatience).count())) continue;
      must(pending.wait());  // this wait drives the operation
      return false;
    }
    return true;
  });
  CHECK(in_time == std::vector<bool>{true, true});
}

TEST_CASE("a wait that its check has stopped can be repeated, and has a result then") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    std::vector<int> x = {1};
    if (self.rank() == 1) {
      must(self.barrier());
      must(self.allreduce(x, {.name = "x"}));
      return x;
    }
    const Pending pending = self.allreduce_async(x, {.name = "x"});
    for (int i = 0; i < 2; ++i) {
      WaitCheck stops([] { return true; }, [] { return std::string("allreduce 'x'"); });
      if (pending.wait_checking(stops) || !stops.has_stopped())
        throw std::runtime_error("it was not stopped");
      if (stops.stopped().code() != Code::interrupted) throw std::runtime_error("another code");
    }
    must(self.barrier());
    WaitCheck goes_on([] { return false; }, [] { return std::string(); });
    if (!pending.wait_checking(goes_on)) throw std::runtime_error("it has not completed");
    must(pending.operation().status());
    return x;
  });
  for (const auto& one : seen) CHECK(one == std::vector{2});
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
    // rank 2 had the whole result before it was cut off, and this rank did not
    if (!before.is_ok()) return before.message();
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

}  // namespace dabke::test

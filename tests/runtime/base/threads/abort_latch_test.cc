#include "runtime/base/threads/abort_latch.h"

#include <latch>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

namespace dabke::test {

TEST_CASE("the first cause of an abort stays") {
  AbortLatch latch;
  CHECK_FALSE(latch.is_aborted());
  CHECK(latch.aborted().is_ok());
  CHECK(latch.abort({Code::peer_lost, "rank 1 is gone"}));
  CHECK_FALSE(latch.abort({Code::aborted, "enough"}));
  CHECK(latch.is_aborted());
  CHECK(latch.aborted().code() == Code::peer_lost);
  CHECK(latch.aborted().message() == "rank 1 is gone");
}

TEST_CASE("of threads that abort at once one is first, and all see its cause") {
  constexpr int kThreads = 4;
  for (int round = 0; round < 50; ++round) {
    AbortLatch latch;
    std::latch start(kThreads);
    std::vector<int> was_first(kThreads);
    std::vector<std::string> seen(kThreads);
    {
      std::vector<std::jthread> threads;
      for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
          const auto own = static_cast<std::size_t>(thread);
          start.arrive_and_wait();
          was_first[own] = latch.abort({Code::aborted, "thread " + std::to_string(thread)}) ? 1 : 0;
          seen[own] = latch.aborted().message();
        });
      }
    }
    int first = -1, count = 0;
    for (int thread = 0; thread < kThreads; ++thread) {
      if (was_first[static_cast<std::size_t>(thread)] == 0) continue;
      first = thread;
      ++count;
    }
    CHECK(count == 1);
    CHECK(seen == std::vector<std::string>(kThreads, "thread " + std::to_string(first)));
  }
}

}  // namespace dabke::test

#include "runtime/timeline/recording/mpsc_queue.h"

#include <memory>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

TEST_CASE("a queue gives values back in order, over many laps") {
  timeline::MpscQueue<int> queue(16);
  int value = -1;
  bool in_order = true;
  for (int i = 0; i < 1000; i += 3) {
    for (int k = 0; k < 3; ++k) in_order &= queue.push(i + k) == static_cast<std::uint64_t>(i + k);
    for (int k = 0; k < 3; ++k) in_order &= queue.pop(value) && value == i + k;
  }
  CHECK(in_order);
  CHECK(queue.empty());
  CHECK_FALSE(queue.pop(value));
}

TEST_CASE("a full queue refuses at once, and takes again after a pop") {
  timeline::MpscQueue<int> queue(10);
  REQUIRE(queue.capacity() == 16);
  for (int i = 0; i < 16; ++i) REQUIRE(queue.push(int{i}));
  CHECK_FALSE(queue.push(99));
  int value = -1;
  REQUIRE(queue.pop(value));
  CHECK(value == 0);
  CHECK(queue.push(16));
  CHECK_FALSE(queue.push(99));
  for (int i = 1; i <= 16; ++i) {
    REQUIRE(queue.pop(value));
    CHECK(value == i);
  }
  CHECK(queue.empty());
}

TEST_CASE("a value that a full queue refused is still the caller's") {
  timeline::MpscQueue<std::unique_ptr<int>> queue(16);
  while (queue.push(std::make_unique<int>(1))) {
  }
  auto mine = std::make_unique<int>(7);
  CHECK_FALSE(queue.push(std::move(mine)));
  REQUIRE(mine);
  CHECK(*mine == 7);
}

TEST_CASE("values of each producer arrive complete and in its order") {
  constexpr int kProducers = 4;
  constexpr int kEach = 50'000;
  timeline::MpscQueue<std::unique_ptr<int>> queue(64);
  std::vector<std::jthread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&queue, p] {
      for (int i = 0; i < kEach; ++i) {
        auto value = std::make_unique<int>(p * kEach + i);
        while (!queue.push(std::move(value))) std::this_thread::yield();
      }
    });
  }
  std::vector<int> next(kProducers, 0);
  int out_of_order = 0;
  for (int seen = 0; seen < kProducers * kEach;) {
    std::unique_ptr<int> value;
    if (!queue.pop(value)) {
      std::this_thread::yield();
      continue;
    }
    ++seen;
    out_of_order += *value % kEach != next[static_cast<std::size_t>(*value / kEach)]++;
  }
  CHECK(out_of_order == 0);
  CHECK(queue.empty());
}

}  // namespace
}  // namespace dabke::test

#include "ops/shm/batch_marks.h"

#include <thread>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

using Brought = ops::BatchMarks::Brought;

std::uint64_t contents_of(std::uint64_t step) { return step * 1000 + 7; }

}  // namespace

TEST_CASE("what a rank has brought instead is known as long as it has gone on by two batches at most") {
  ops::BatchMarks marks;
  CHECK_FALSE(marks.instead_of({3, 30}));  // the rank has written nothing yet
  marks.write({1, 10});
  marks.write({3, 31});
  CHECK(marks.instead_of({3, 30}) == Brought{3, 31});
  CHECK_FALSE(marks.instead_of({3, 31}));
  CHECK(marks.instead_of({2, 20}) == Brought{3, 31});
  CHECK_FALSE(marks.instead_of({4, 40}));
  marks.write({4, 40});
  CHECK(marks.instead_of({3, 30}) == Brought{3, 31});
  marks.write({5, 50});
  CHECK_FALSE(marks.instead_of({3, 30}));
}

TEST_CASE("a rank that goes on while its marks are read has skipped nothing") {
  ops::BatchMarks marks;
  std::atomic<std::uint64_t> told = 1;
  marks.write({1, contents_of(1)});
  std::jthread rank([&](const std::stop_token& stop) {
    for (std::uint64_t step = 2; !stop.stop_requested(); ++step) {
      marks.write({step, contents_of(step)});
      told.store(step, std::memory_order_release);
    }
  });
  std::optional<Brought> wrong;
  for (int i = 0; i < 1'000'000 && !wrong; ++i) {
    const std::uint64_t step = told.load(std::memory_order_acquire);
    wrong = marks.instead_of({step, contents_of(step)});
    if (wrong) UNSCOPED_INFO("own step " << step << ", the rank's " << wrong->step);
  }
  CHECK_FALSE(wrong);
}

}  // namespace dabke::test

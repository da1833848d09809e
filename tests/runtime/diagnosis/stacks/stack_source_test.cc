#include "runtime/diagnosis/stacks/stack_source.h"

#include <atomic>
#include <memory>
#include <semaphore>

#include <catch2/catch.hpp>

namespace dabke::test {

using Catch::Matchers::Contains;

TEST_CASE("the stack source says what its provider says, and nothing without one") {
  diagnosis::StackSource source;
  CHECK(source.ask(std::chrono::seconds(10)).empty());
  source.set([] { return std::string("train.py:12"); });
  CHECK(source.ask(std::chrono::seconds(10)) == "train.py:12");
  source.set(nullptr);
  CHECK(source.ask(std::chrono::seconds(10)).empty());
}

TEST_CASE("a stack provider that hangs delays nobody and is not called again meanwhile") {
  struct Gate {
    std::counting_semaphore<> entered{0};
    std::counting_semaphore<> open{0};
    std::atomic<int> calls{0};
  };
  const auto gate = std::make_shared<Gate>();
  diagnosis::StackSource source;
  source.set([gate] {
    ++gate->calls;
    gate->entered.release();
    gate->open.acquire();
    return std::string("at last");
  });
  CHECK_THAT(source.ask(std::chrono::milliseconds(20)), Contains("has not returned"));
  CHECK_THAT(source.ask(std::chrono::seconds(100)), Contains("has not returned"));
  gate->entered.acquire();
  CHECK(gate->calls == 1);
  gate->open.release();
  // Answers come again once the first call has ended.
  gate->open.release();
  std::string text;
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  do {
    text = source.ask(std::chrono::seconds(10));
    gate->open.release();
  } while (text != "at last" && Clock::now() < deadline);
  CHECK(text == "at last");
}

}  // namespace dabke::test

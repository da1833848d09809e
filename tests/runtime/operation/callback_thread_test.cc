#include "runtime/operation/callback_thread.h"

#include <future>
#include <vector>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

constexpr int kCount = 160;

/// An operation whose callback adds `number` to the list.
OperationRef operation_that_notes(std::vector<int>& called, int number) {
  auto operation = OperationRef::adopt(new Operation);
  operation->make_extras().callback = [&called, number](Operation&) { called.push_back(number); };
  return operation;
}

std::vector<int> numbers() {
  std::vector<int> all;
  for (int i = 0; i < kCount; ++i) all.push_back(i);
  return all;
}

}  // namespace

TEST_CASE("one wake after many pushes runs all callbacks in their order") {
  std::vector<int> called;
  std::promise<void> last;
  CallbackThread thread;
  REQUIRE(thread.start([](const Status&) {}).is_ok());
  for (int i = 0; i < kCount; ++i) thread.push(operation_that_notes(called, i));
  auto end = OperationRef::adopt(new Operation);
  end->make_extras().callback = [&](Operation&) { last.set_value(); };
  thread.push(std::move(end));
  thread.wake();
  last.get_future().get();
  CHECK(called == numbers());
}

TEST_CASE("a thread whose wake finds nothing new is woken by the next push and wake") {
  CallbackThread thread;
  REQUIRE(thread.start([](const Status&) {}).is_ok());
  for (int i = 0; i < kCount; ++i) {
    std::promise<void> ran;
    auto operation = OperationRef::adopt(new Operation);
    operation->make_extras().callback = [&](Operation&) { ran.set_value(); };
    thread.push(std::move(operation));
    thread.wake();
    thread.wake();
    ran.get_future().get();
  }
}

TEST_CASE("callbacks that were pushed without a wake run before stop() returns") {
  std::vector<int> called;
  CallbackThread thread;
  REQUIRE(thread.start([](const Status&) {}).is_ok());
  for (int i = 0; i < kCount; ++i) thread.push(operation_that_notes(called, i));
  thread.stop();
  CHECK(called == numbers());
}

}  // namespace dabke::test

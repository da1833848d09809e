#include "runtime/store/checked_store.h"

#include <atomic>
#include <thread>

#include <catch2/catch.hpp>

#include "runtime/store/init_failure.h"
#include "runtime/store/init_watch.h"
#include "tests/runtime/links/ranks.h"

using namespace dabke;
using namespace dabke::test;

namespace {

constexpr double kLong = 3600;  // no test waits for so long

/// A check that stops the wait at its `last` call. It counts its calls, and those from other threads.
class Check {
 public:
  explicit Check(int last) : last_(last) {}
  std::weak_ptr<WaitCheck> get() const { return check_; }
  int asked() const { return asked_; }
  int asked_elsewhere() const { return asked_elsewhere_; }
  /// Init is over.
  void release() { check_.reset(); }

 private:
  bool stops() {
    if (std::this_thread::get_id() != thread_) ++asked_elsewhere_;
    return ++asked_ >= last_;
  }

  const int last_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::atomic<int> asked_{0}, asked_elsewhere_{0};
  std::shared_ptr<WaitCheck> check_ =
      std::make_shared<WaitCheck>([this] { return stops(); }, [] { return std::string("dabke_init"); });
};

constexpr int kNeverStops = 1 << 30;

}  // namespace

TEST_CASE("a check that says stop ends a wait in the store, however that is cut") {
  const auto store = store::make_memory_store();
  REQUIRE(store->set("job/here", "value").is_ok());
  Check check(2);
  const auto checked = store::with_prefix(store::with_check(store, check.get(), 2), "job");
  const double wait_s = GENERATE(0.001, 0.01, kLong);
  const bool asks_for_trouble = GENERATE(false, true);
  CAPTURE(wait_s, asks_for_trouble);
  Status end;
  const TimePoint limit = deadline_after(60);
  while (end.is_ok() && Clock::now() < limit) {
    end = asks_for_trouble ? checked->trouble() : checked->get("nothing", deadline_after(wait_s)).status();
    if (end.code() == Code::timeout) end = {};
  }
  CHECK(end.code() == Code::interrupted);
  CHECK(end.message() == "dabke_init was stopped by its check");
  CHECK(check.asked() == 2);
  // The check is not called again, and every later wait ends at once. Keys can still be
  // read, which explains why others fail.
  CHECK(checked->get("nothing", deadline_after(kLong)).status().code() == Code::interrupted);
  CHECK(checked->trouble().code() == Code::interrupted);
  CHECK(*checked->get("here", deadline_after(kLong)) == "value");
  CHECK(checked->get("nothing", TimePoint{}).status().code() == Code::timeout);
  CHECK(check.asked() == 2);
}

TEST_CASE("a check that goes on changes no wait: it ends at its deadline, or with the value") {
  const auto store = store::make_memory_store();
  Check check(kNeverStops);
  const auto checked = store::with_check(store, check.get(), 2);
  CHECK(checked->get("key", deadline_after(0.3)).status().code() == Code::timeout);
  const int before = check.asked();
  CHECK(before > 0);
  std::thread other([&] {
    while (check.asked() == before) std::this_thread::yield();
    (void)store->set("key", "value");
  });
  CHECK(*checked->get("key", deadline_after(kLong)) == "value");
  other.join();
  CHECK(checked->trouble().is_ok());
}

TEST_CASE("the stop of one rank's init reaches the others through init's watch, as an abort that names it") {
  const auto store = store::make_memory_store();
  Check check(1);
  const auto stopped = store::watch_init(store::with_check(store, check.get(), 2), world_of(0, 2), {});
  const Status own = stopped->get("nothing", deadline_after(kLong)).status();
  CHECK(own.code() == Code::interrupted);
  store::report_init_failure(*stopped, 0, own);
  const auto other = store::watch_init(store, world_of(1, 2), {});
  const Status told = other->get("nothing", deadline_after(kLong)).status();
  CHECK(told.code() == Code::aborted);
  CHECK(told.message() == "rank 0 failed in dabke_init: dabke_init was stopped by its check");
}

TEST_CASE("only the thread of init asks the check") {
  const auto store = store::make_memory_store();
  Check check(kNeverStops);
  const auto checked = store::with_check(store, check.get(), 2);
  std::thread other([&] {
    (void)checked->get("nothing", deadline_after(0.3));
    (void)checked->trouble();
  });
  other.join();
  CHECK(check.asked() == 0);
  CHECK(checked->get("nothing", deadline_after(0.1)).status().code() == Code::timeout);
  CHECK(check.asked() > 0);
  CHECK(check.asked_elsewhere() == 0);
}

TEST_CASE("nobody asks the check once init is over, and a program without one has its store as it is") {
  const auto store = store::make_memory_store();
  Check check(kNeverStops);
  const auto checked = store::with_check(store, check.get(), 2);
  check.release();
  CHECK(checked->get("nothing", deadline_after(0.2)).status().code() == Code::timeout);
  CHECK(checked->trouble().is_ok());
  CHECK(check.asked() == 0);
  CHECK(store::with_check(store, check.get(), 2) == store);
}

#include "runtime/diagnosis/stacks/native_stacks.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <semaphore>
#include <thread>

#include <catch2/catch.hpp>

#include "runtime/base/threads/signal_keeper.h"
#include "runtime/base/threads/thread.h"
#include "tests/child_process.h"
#include "tests/patience.h"

namespace {
/// The seconds by which this program's wall clock is behind the kernel's, as if it
/// were set between a reading and a wait.
std::atomic<time_t> wall_clock_behind{0};
}  // namespace

#if !DABKE_TEST_SANITIZED
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME) time->tv_sec -= wall_clock_behind;
  return result;
}
#endif

namespace dabke::test {
namespace {

int this_thread() { return static_cast<int>(::syscall(SYS_gettid)); }

/// A thread that waits in a function whose name the test can find.
class Waiter {
 public:
  explicit Waiter(bool blocks_signals = false) {
    const auto body = [this] {
      id_ = this_thread();
      started_.release();
      wait_for_the_end();
    };
    if (blocks_signals) {
      sigset_t all, before;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
      thread_ = std::jthread(body);
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
    } else {
      thread_ = std::jthread(body);
    }
    started_.acquire();
  }
  ~Waiter() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    end_.notify_all();
  }
  int id() const { return id_; }

 private:
  // Not a semaphore: ThreadSanitizer delivers signals to threads only in calls that
  // it intercepts, which a futex is not.
  __attribute__((noinline)) void wait_for_the_end() {
    std::unique_lock lock(mutex_);
    end_.wait(lock, [this] { return ended_; });
  }

  int id_ = 0;
  std::binary_semaphore started_{0};
  std::mutex mutex_;
  std::condition_variable end_;
  bool ended_ = false;
  std::jthread thread_;
};

const diagnosis::Dump::Stack* stack_of(const std::vector<diagnosis::Dump::Stack>& stacks, int thread) {
  const auto found = std::ranges::find(stacks, thread, &diagnosis::Dump::Stack::thread);
  return found == stacks.end() ? nullptr : &*found;
}

std::string joined(const diagnosis::Dump::Stack& stack) {
  std::string text;
  for (const std::string& frame : stack.frames) text += frame + "\n";
  return text;
}

}  // namespace

TEST_CASE("threads tell their stacks, the main thread first, and go on") {
  diagnosis::NativeStacks native(std::chrono::seconds(20));
  const Waiter one;
  const Waiter other;
  for (int round = 0; round < 20; ++round) {
    const auto stacks = native.take();
    REQUIRE(stacks.size() >= 3);
    CHECK(stacks[0].thread == ::getpid());
    for (const Waiter* waiter : {&one, &other}) {
      const diagnosis::Dump::Stack* const stack = stack_of(stacks, waiter->id());
      REQUIRE(stack != nullptr);
      CAPTURE(joined(*stack));
      REQUIRE(stack->frames.size() >= 3);
      CHECK(joined(*stack).find("test_diagnosis") != std::string::npos);
    }
  }
}

TEST_CASE("a thread that blocks signals is named as such, the runtime's own threads are left out") {
  diagnosis::NativeStacks native(std::chrono::seconds(20));
  const Waiter deaf(true);
  std::binary_semaphore end{0};
  std::atomic<int> ours{0};
  const auto own = start_thread("dabke-test", [&] {
    ours = this_thread();
    ours.notify_all();
    end.acquire();
  });
  ours.wait(0);
  const auto stacks = native.take();
  end.release();
  REQUIRE(stack_of(stacks, deaf.id()) != nullptr);
  CHECK(joined(*stack_of(stacks, deaf.id())) == "(this thread blocks signals)\n");
  CHECK(stack_of(stacks, ours) == nullptr);
}

TEST_CASE("a thread that blocks signals for a moment tells its stack") {
  diagnosis::NativeStacks native(std::chrono::seconds(20));
  std::atomic<bool> ends = false;
  std::atomic<int> id = 0;
  std::jthread blinker([&] {
    id = this_thread();
    id.notify_all();
    sigset_t all, before;
    sigfillset(&all);
    while (!ends) {  // nearly always
      pthread_sigmask(SIG_SETMASK, &all, &before);
      ::usleep(20'000);
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      ::usleep(8'000);
    }
  });
  id.wait(0);
  std::size_t told = 0;
  for (int round = 0; round < 5; ++round) {
    const auto stacks = native.take();
    const diagnosis::Dump::Stack* const stack = stack_of(stacks, id);
    if (stack != nullptr && stack->frames.size() >= 3) ++told;
  }
  ends = true;
  CHECK(told == 5);
}

TEST_CASE("threads are waited for by a clock that nobody sets") {
  diagnosis::NativeStacks native(std::chrono::seconds(20));
  const Waiter waiter;
  wall_clock_behind = 3600;
  const auto stacks = native.take();
  wall_clock_behind = 0;
  REQUIRE(stack_of(stacks, waiter.id()) != nullptr);
  CHECK_THAT(joined(*stack_of(stacks, waiter.id())), !Catch::Contains("does not answer"));
}

TEST_CASE("a signal that the application has taken is left to it") {
  struct sigaction theirs {};
  theirs.sa_handler = [](int) { ::_exit(77); };
  struct sigaction before {};
  ::sigaction(SIGRTMIN + 1, &theirs, &before);
  diagnosis::NativeStacks native(std::chrono::seconds(20));
  const Waiter waiter;
  CHECK(stack_of(native.take(), waiter.id()) != nullptr);
  struct sigaction now {};
  ::sigaction(SIGRTMIN + 1, &before, &now);
  CHECK(now.sa_handler == theirs.sa_handler);
}

TEST_CASE("a library that is loaded while stacks are taken does not take their signal away") {
  CHECK(status_in_child([] {
          ::signal(SIGRTMIN + 1, SIG_DFL);  // earlier tests have installed handlers for it
          struct sigaction theirs {};
          theirs.sa_handler = [](int) {};
          {
            const SignalKeeper application;
            ::sigaction(SIGUSR1, &theirs, nullptr);  // as such libraries do
            (void)diagnosis::NativeStacks(std::chrono::seconds(20)).take();
          }
          struct sigaction now {};
          ::sigaction(SIGUSR1, nullptr, &now);
          if (now.sa_handler != SIG_DFL) return 1;
          return ::raise(SIGRTMIN + 1);  // ends the process if there is no handler
        }) == 0);
}

TEST_CASE("many takers at the same time do not disturb one another") {
  constexpr int kRounds = test::kSanitized ? 2 : 5;
  const Waiter waiter;
  std::atomic<int> found{0};
  {
    std::vector<std::jthread> takers;
    for (int i = 0; i < 4; ++i) {
      takers.emplace_back([&] {
        diagnosis::NativeStacks native(std::chrono::seconds(20));
        for (int round = 0; round < kRounds; ++round) {
          const auto stacks = native.take();
          const diagnosis::Dump::Stack* const stack = stack_of(stacks, waiter.id());
          if (stack != nullptr && stack->frames.size() >= 3) ++found;
        }
      });
    }
  }
  CHECK(found == 4 * kRounds);
}

}  // namespace dabke::test

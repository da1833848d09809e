#include "runtime/diagnosis/stacks/thread_places.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <functional>
#include <thread>

#include <catch2/catch.hpp>

#include "runtime/diagnosis/stacks/thread_samples.h"
#include "tests/facts.h"

namespace dabke::test {
namespace {

using Catch::Contains;

/// A thread that runs a function. The test has its number once it has started.
class Subject {
 public:
  explicit Subject(std::function<void()> body)
      : thread_([this, body] {
          id_ = static_cast<int>(::syscall(SYS_gettid));
          id_.notify_all();
          body();
        }) {
    id_.wait(0);
  }
  int id() const { return id_; }
  pthread_t handle() { return thread_.native_handle(); }

 private:
  std::atomic<int> id_{0};
  std::jthread thread_;
};

std::string place_of(int thread) {
  const auto places = diagnosis::thread_places();
  const auto found = std::ranges::find(places, thread, &diagnosis::Dump::Stack::thread);
  std::string text;
  if (found == places.end()) return text;
  for (const std::string& frame : found->frames) text += frame + "\n";
  return text;
}

/// The place, once it contains `part`: a thread needs a moment to reach the place where it waits.
std::string place_with(int thread, const std::string& part) {
  std::string place;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  do place = place_of(thread);
  while (place.find(part) == std::string::npos && std::chrono::steady_clock::now() < deadline);
  return place;
}

// Not static, so that a build without libdw also finds the names.
__attribute__((noinline)) int sleep_here() {
  const timespec long_time{3600, 0};
  const int slept = ::nanosleep(&long_time, nullptr);
  asm volatile("" ::: "memory");  // no tail call
  return slept;
}

__attribute__((noinline)) int poll_here(int fd) {
  pollfd entry{fd, POLLIN, 0};
  const int events = ::poll(&entry, 1, 3'600'000);
  asm volatile("" ::: "memory");
  return events;
}

__attribute__((noinline)) void spin_here(const std::atomic<bool>& ended) {
  while (!ended.load(std::memory_order_relaxed)) asm volatile("");
}

}  // namespace

TEST_CASE("a thread that sleeps is told with its callers, and sleeps on") {
  struct sigaction wake {};
  wake.sa_handler = [](int) {};
  struct sigaction before {};
  ::sigaction(SIGUSR1, &wake, &before);
  std::atomic<bool> is_over{false};
  std::atomic<bool> was_woken{false};
  {
    Subject sleeper([&] {
      while (!is_over) {
        sleep_here();
        if (!is_over) was_woken = true;
      }
      is_over = false;
      is_over.notify_all();
    });
    for (int look = 0; look < 20; ++look) {
      const std::string place = place_with(sleeper.id(), "nanosleep");
      CAPTURE(place);
      CHECK_THAT(place, Contains("(asleep in the kernel") && Contains("nanosleep"));
      if (HAVE_LIBDW) CHECK_THAT(place, Contains("sleep_here"));
    }
    is_over = true;
    while (is_over) {  // the signal may come between the check and the sleep
      ::pthread_kill(sleeper.handle(), SIGUSR1);
      std::this_thread::yield();
    }
  }
  ::sigaction(SIGUSR1, &before, nullptr);
  CHECK_FALSE(was_woken);
}

TEST_CASE("a thread in poll() is told with its callers, and its poll goes on") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  std::atomic<int> result{-2};
  {
    Subject waiter([&] { result = poll_here(ends[0]); });
    const std::string place = place_with(waiter.id(), "poll");
    CHECK_THAT(place, Contains("poll"));
    if (HAVE_LIBDW) CHECK_THAT(place, Contains("poll_here"));
    for (int look = 0; look < 20; ++look) (void)diagnosis::thread_places();
    CHECK(result == -2);
    CHECK(::write(ends[1], "x", 1) == 1);
  }
  CHECK(result == 1);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("a thread that runs is told by samples where the kernel allows them") {
  std::atomic<bool> ended{false};
  std::string place, error;
  {
    Subject runner([&] { spin_here(ended); });
    error = diagnosis::sample_threads({runner.id()}).front().error;
    // Without libdw, only the address of a function that is not exported is known.
    const std::string known = HAVE_LIBDW ? "spin_here" : "(running";
    place = place_with(runner.id(), error.empty() ? known : "perf_event_open");
    ended = true;
  }
  CAPTURE(place, error);
  CHECK_THAT(place, Contains("(running"));
  if (HAVE_LIBDW && error.empty()) CHECK_THAT(place, Contains("spin_here"));
  if (!error.empty()) CHECK_THAT(place, Contains(error));
}

TEST_CASE("the main thread comes first, the one that asks is left out, and a limit holds") {
  std::vector<diagnosis::Dump::Stack> places, first;
  {
    const Subject asker([&] {
      places = diagnosis::thread_places();
      first = diagnosis::thread_places(1);
    });
    (void)asker;
  }
  REQUIRE_FALSE(places.empty());
  CHECK(places.front().thread == ::getpid());
  REQUIRE(first.size() == 1);
  CHECK(first.front().thread == ::getpid());
}

}  // namespace dabke::test

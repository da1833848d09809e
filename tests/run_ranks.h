// Ranks as threads of the test.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"

namespace dabke::test {

/// One thread per rank, which calls one function, and the first exception that any thread throws.
class RankThreads {
 public:
  /// Calls `when_one_throws` once, on the thread that throws first.
  RankThreads(
      int size, const std::function<void(int rank)>& function,
      const std::function<void()>& when_one_throws = [] {})
      : left_(size) {
    for (int rank = 0; rank < size; ++rank) {
      threads_.emplace_back([this, rank, function, when_one_throws] {
        std::exception_ptr thrown;
        try {
          function(rank);
        } catch (...) {
          thrown = std::current_exception();
        }
        if (thrown && note(thrown)) when_one_throws();
        const std::lock_guard lock(mutex_);
        --left_;
        ended_.notify_all();
      });
    }
  }

  /// True if all threads end before the time is over.
  bool wait_for(Duration patience) {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, patience, [this] { return left_ == 0; });
  }
  /// Waits for all threads. Returns the first exception, or null if no thread has thrown.
  std::exception_ptr join() {
    for (std::jthread& thread : threads_) thread.join();
    return first_;
  }

 private:
  /// True if this exception is the first.
  bool note(std::exception_ptr thrown) {
    const std::lock_guard lock(mutex_);
    if (first_) return false;
    first_ = std::move(thrown);
    return true;
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  int left_;
  std::exception_ptr first_;
  std::vector<std::jthread> threads_;
};

/// The results of `body(rank)`, by rank. `run(call)` runs `call(rank)` once for each rank, on any threads.
template <class Body, class Run>
auto collect_from_ranks(int size, Body& body, Run run) {
  using Seen = std::invoke_result_t<Body&, int>;
  if constexpr (std::is_void_v<Seen>) {
    run(body);
  } else {
    std::vector<std::optional<Seen>> seen(static_cast<std::size_t>(size));
    run([&](int rank) { seen[static_cast<std::size_t>(rank)].emplace(body(rank)); });
    std::vector<Seen> all;
    for (auto& one : seen) all.push_back(std::move(*one));
    return all;
  }
}

/// Calls `body(rank)` on one thread per rank and returns the results, by rank. If a thread has thrown,
/// rethrows the first exception once all threads have ended.
template <class Body>
auto run_ranks(int size, Body body) {
  return collect_from_ranks(size, body, [size](const auto& call) {
    if (const std::exception_ptr thrown = RankThreads(size, call).join()) std::rethrow_exception(thrown);
  });
}

}  // namespace dabke::test

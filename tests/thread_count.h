// The number of threads of this process. The kernel lists a thread for a short time after it has been joined.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <thread>

namespace dabke::test {

inline std::size_t listed_threads() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

/// The number of threads, once it has not changed for a while.
inline std::size_t thread_count() {
  std::size_t count = listed_threads();
  for (int same = 0; same < 10; ++same) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::size_t now = listed_threads();
    if (now != count) same = 0;
    count = now;
  }
  return count;
}

/// True if at most `most` threads are left within a minute.
inline bool threads_fall_to(std::size_t most) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (listed_threads() > most) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace dabke::test

// How to wait for another process to write to shared memory: check about 100 times, yield the core some
// times, then sleep in the kernel. Longer checking starves the awaited process if there are more ranks than
// cores. Sleeping at once costs two context switches, even if the answer is half a microsecond away.
#pragma once

#include <sched.h>

#include <algorithm>
#include <optional>

namespace dabke::shm {

/// Learns whether spinning has paid off lately. It never does if the other process runs on this very core.
class WaitingHabit {
 public:
  static constexpr int kMostSpins = 100;
  static constexpr int kLeastSpins = 4;
  static constexpr unsigned kTryAgain = 64;  // once in so many waits, spins as long as at first

  int spins() { return ++waits_ % kTryAgain == 0 ? kMostSpins : spins_; }
  bool is_worth_while() const { return spins_ > kLeastSpins; }
  /// `came_after` is the number of spins, or none if the data came too late for them. After one success the
  /// limit at least doubles. Data that needs ten spins would never come within a limit that grew slowly from
  /// four.
  void learn(std::optional<int> came_after) {
    spins_ = came_after ? std::clamp(4 * *came_after, std::min(kMostSpins, 2 * spins_), kMostSpins)
                        : std::max(kLeastSpins, spins_ / 2);
  }

 private:
  int spins_ = kMostSpins;
  unsigned waits_ = 0;
};

/// One wait: `for (Waiting wait; wait.again();) if (ready()) ...`, and after the loop the code that sleeps.
class Waiting {
 public:
  static constexpr int kYields = 10;

  explicit Waiting(int yields = kYields) : yields_(yields) {}
  /// Spins no longer than the habit allows, and reports the result to it.
  explicit Waiting(WaitingHabit& habit, int yields = kYields)
      : habit_(&habit), spins_(habit.spins()), yields_(yields) {}
  ~Waiting() { teach(); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  /// True if the caller must check (again), after a short pause; false: time to sleep. The first check comes
  /// at once.
  bool again() {
    const int turn = turns_++;
    if (turn == 0) return true;
    if (turn <= spins_) {
      pause();
      return true;
    }
    if (turn > spins_ + yields_) return false;
    ::sched_yield();
    return true;
  }
  /// Called when something has come and more is waited for.
  void restart() {
    teach();
    if (habit_ != nullptr) spins_ = habit_->spins();
    turns_ = 0;
  }

 private:
  void teach() {
    // Data that is there at the first check teaches nothing.
    if (habit_ == nullptr || turns_ <= 1) return;
    habit_->learn(turns_ <= spins_ + 1 ? std::optional(turns_ - 1) : std::nullopt);
  }
  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  WaitingHabit* habit_ = nullptr;
  int spins_ = WaitingHabit::kMostSpins;
  int yields_;
  int turns_ = 0;
};

}  // namespace dabke::shm

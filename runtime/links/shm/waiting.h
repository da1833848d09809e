// How to wait for another process to write to shared memory: look about 100 times, give the core away some
// times, then sleep in the kernel. Looking longer starves the very process that is waited for when there are
// more ranks than cores; sleeping at once costs two context switches where the answer is half a microsecond
// away.
#pragma once

#include <sched.h>

#include <algorithm>
#include <optional>

namespace dabke::shm {

/// Whether looking has been worth while lately. Where the other process runs on this very core, it never is.
class WaitingHabit {
 public:
  static constexpr int kMostSpins = 100;
  static constexpr int kLeastSpins = 4;
  static constexpr unsigned kTryAgain = 64;  // once in so many waits, it looks for as long as at first

  int spins() { return ++waits_ % kTryAgain == 0 ? kMostSpins : spins_; }
  bool is_worth_while() const { return spins_ > kLeastSpins; }
  /// `came_after`: so many spins, or none when it came too late for that. One try is enough to learn again
  /// how long it pays to spin: what needs ten spins would never come while it is tried with a few more than
  /// four.
  void learn(std::optional<int> came_after) {
    spins_ = came_after ? std::clamp(4 * *came_after, std::min(kMostSpins, 2 * spins_), kMostSpins)
                        : std::max(kLeastSpins, spins_ / 2);
  }

 private:
  int spins_ = kMostSpins;
  unsigned waits_ = 0;
};

/// One wait: `for (Waiting wait; wait.again();) if (ready()) ...`, and behind the loop whatever sleeps.
class Waiting {
 public:
  static constexpr int kYields = 10;

  explicit Waiting(int yields = kYields) : yields_(yields) {}
  /// Spins no longer than the habit says, and teaches it.
  explicit Waiting(WaitingHabit& habit, int yields = kYields)
      : habit_(&habit), spins_(habit.spins()), yields_(yields) {}
  ~Waiting() { teach(); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  /// Whether to look (again), after a short pause; false: time to sleep. The first look comes at once.
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
  /// Something has come, and more is waited for.
  void restart() {
    teach();
    if (habit_ != nullptr) spins_ = habit_->spins();
    turns_ = 0;
  }

 private:
  void teach() {
    // What is there at the first look teaches nothing.
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

// How to wait for another process to write to shared memory: look about 100 times, give the core away about
// 10 times, then sleep in the kernel. Looking longer starves the very process that is waited for when there
// are more ranks than cores; sleeping at once costs two context switches where the answer is half a
// microsecond away.
#pragma once

#include <sched.h>

namespace dabke {

/// One wait: `for (Waiting wait; wait.again();) if (ready()) ...`, and behind the loop whatever sleeps.
class Waiting {
 public:
  static constexpr int kSpins = 100;
  static constexpr int kYields = 10;

  /// Whether to look (again), after a short pause; false: time to sleep. The first look comes at once.
  bool again() {
    const int turn = turns_++;
    if (turn == 0) return true;
    if (turn <= kSpins) {
      pause();
      return true;
    }
    if (turn > kSpins + kYields) return false;
    ::sched_yield();
    return true;
  }

 private:
  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  int turns_ = 0;
};

}  // namespace dabke

// Keeps Gloo's thread from taking the core of the very thread that it would then wait for.
//
// Who sends or asks to receive takes the lock of the connection. When something arrives there meanwhile,
// Gloo's thread tries the lock, does not get it, and asks the kernel again, at once, for as long as there is
// something to read: it spins. Has it taken the core from the lock's owner, that lasts until its time slice
// is over, about 3 ms, where sending takes some microseconds.
//
// So while the lock may be taken, Gloo's thread is a batch job (SCHED_BATCH), which gives way to whoever runs
// when it wakes. Always being one would be worse: with other programs on all cores it would wait for a slice
// of theirs each time.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <atomic>

namespace dabke::ops {

class DeviceThread {
 public:
  /// Called on Gloo's thread. One that somebody has given another policy keeps it.
  void introduce() {
    if (::sched_getscheduler(0) == SCHED_OTHER) id_.store(::gettid(), std::memory_order_relaxed);
  }

  /// Makes Gloo's thread give way while it lives. One thread at a time may have one.
  class GivesWay {
   public:
    explicit GivesWay(const DeviceThread& thread) : id_(thread.id_.load(std::memory_order_relaxed)) {
      set(SCHED_BATCH);
    }
    ~GivesWay() { set(SCHED_OTHER); }
    GivesWay(const GivesWay&) = delete;
    GivesWay& operator=(const GivesWay&) = delete;

   private:
    void set(int policy) const {
      constexpr sched_param kNoPriority{};
      if (id_ != 0)
        (void)::sched_setscheduler(id_, policy, &kNoPriority);  // forbidden: then it is as slow as before
    }
    const pid_t id_;
  };

 private:
  std::atomic<pid_t> id_{0};  // 0: not known
};

}  // namespace dabke::ops

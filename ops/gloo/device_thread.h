// Keeps Gloo's thread from preempting the thread on which it would then wait.
//
// A thread that sends or asks to receive takes the lock of the connection. If data arrives on that connection
// meanwhile, Gloo's thread tries the lock, fails, and asks the kernel again at once. It repeats this as long
// as there is something to read: it spins. If Gloo's thread has taken the core from the owner of the lock,
// the spinning lasts until its time slice is over. That is about 3 ms, where sending takes some microseconds.
//
// So while the lock may be taken, Gloo's thread has the policy SCHED_BATCH, with which it does not preempt
// the running thread when it wakes. With that policy at all times, and other programs on all cores, Gloo's
// thread would have to wait for one of their time slices at each wakeup.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <atomic>

namespace dabke::ops {

class DeviceThread {
 public:
  /// Called on Gloo's thread. A thread that already has another policy keeps it.
  void introduce() {
    if (::sched_getscheduler(0) == SCHED_OTHER) id_.store(::gettid(), std::memory_order_relaxed);
  }

  /// Makes Gloo's thread give way during the lifetime of this object. At most one object may exist at a time.
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
        (void)::sched_setscheduler(id_, policy, &kNoPriority);  // if forbidden, the thread spins as before
    }
    const pid_t id_;
  };

 private:
  std::atomic<pid_t> id_{0};  // 0: not known
};

}  // namespace dabke::ops

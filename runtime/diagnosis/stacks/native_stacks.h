// The native stacks of this process's own threads, taken by the threads themselves in a signal handler.
//
//  1. The class chooses the first real-time signal from SIGRTMIN + 1 on that has no handler. It keeps its
//     handler installed, since a thread that gets the signal late must not die of it. If the application
//     takes the signal later, the class chooses another.
//  2. Each thread that does not block the signal gets it, with the address of a record. The thread unwinds
//     itself into that record and marks it as full.
//  3. A thread that does not answer in time is reported as such. Its record is kept for ever, because the
//     thread may still fill it.
// The handler uses no ptrace, no lock and no memory. Some calls that the signal interrupts are not restarted
// by SA_RESTART (poll, epoll_wait, sleeps), and return EINTR in that thread. So stacks are taken only if the
// user asks for them or the job fails, and DABKE_DISABLE_NATIVE_STACKS turns them off. Warnings use
// thread_places.h, which disturbs no thread.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/diagnosis/dumps/dump.h"

namespace dabke::diagnosis {

class NativeStacks {
 public:
  /// `answer_time` is for all threads together.
  explicit NativeStacks(std::chrono::milliseconds answer_time = std::chrono::milliseconds(300));
  ~NativeStacks();
  NativeStacks(const NativeStacks&) = delete;
  NativeStacks& operator=(const NativeStacks&) = delete;

  /// Returns the stacks of all threads, the main thread's first. The runtime's own threads
  /// ("dabke-...") are left out, since they block all signals. Call it on one thread at a time, and not
  /// on a thread of the runtime.
  std::vector<Dump::Stack> take();

 private:
  struct Record;
  static int choose_signal();
  static bool ask(int thread, int signal, Record& record);

  const std::chrono::milliseconds answer_time_;
  std::vector<std::unique_ptr<Record>> unanswered_;
};

}  // namespace dabke::diagnosis

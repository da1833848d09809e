// The native stacks of this process's own threads, taken by the threads themselves in a signal handler.
//
//   1. A real-time signal that nobody handles is chosen, the first from SIGRTMIN + 1 on, and handled by us
//      from then on: a thread that gets it late must not die of it. Should the application take it after all,
//      we choose another.
//   2. Each thread that does not block it is sent it, with the address of a record to fill; it unwinds itself
//      into that record and says that it is full.
//   3. Who does not answer within a moment is told as such; its record is kept for ever, because it may still
//      be filled.
// No ptrace, no lock and no memory in the handler. Calls that the signal interrupts and that SA_RESTART does
// not cover (poll, epoll_wait, sleeps) return EINTR in that thread: that is why stacks are taken only when
// somebody asks for them or the job fails, and DABKE_DISABLE_NATIVE_STACKS turns them off. A warning asks
// thread_places.h, which disturbs nobody.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/diagnosis/dumps/dump.h"

namespace dabke::diagnosis {

class NativeStacks {
 public:
  /// `answer_time`: for all threads together.
  explicit NativeStacks(std::chrono::milliseconds answer_time = std::chrono::milliseconds(300));
  ~NativeStacks();
  NativeStacks(const NativeStacks&) = delete;
  NativeStacks& operator=(const NativeStacks&) = delete;

  /// The stacks of all threads but the runtime's own ("dabke-..."), which block all signals; the main thread
  /// first. Called on one thread at a time, and not on one of those threads.
  std::vector<Dump::Stack> take();

 private:
  struct Record;
  static int choose_signal();
  static bool ask(int thread, int signal, Record& record);

  const std::chrono::milliseconds answer_time_;
  std::vector<std::unique_ptr<Record>> unanswered_;
};

}  // namespace dabke::diagnosis

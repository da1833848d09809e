// Where the threads of this process are, without a signal to any of them: a signal would end an application's
// sleep(), poll() or epoll_wait(), and a warning must change nothing.
//
//   1. /proc/self/task/<thread>/syscall has the program counter and the stack pointer of a thread that
//      waits in the kernel; its callers follow from the unwinding tables and from what lies on its stack,
//      which is read through /proc/self/mem. Who has moved meanwhile is looked at again.
//   2. Of a thread that runs the kernel takes a few samples, where perf_event_open() is allowed
//      (thread_samples.h); else only that it runs is told.
#pragma once

#include <vector>

#include "runtime/diagnosis/dumps/dump.h"

namespace dabke::diagnosis {

/// The places of all threads but the runtime's own ("dabke-..."), the main thread first. The first line of
/// each, in parentheses, says what the thread does; the frames follow. Takes some 20 ms where threads run.
std::vector<Dump::Stack> thread_places();

}  // namespace dabke::diagnosis

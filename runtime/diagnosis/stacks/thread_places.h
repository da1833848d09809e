// Finds the positions of this process's threads without sending them a signal. A signal would end an
// application's sleep(), poll() or epoll_wait(), and a warning must change nothing.
//
//  1. For a thread that waits in the kernel, /proc/self/task/<thread>/syscall has the program counter and the
//     stack pointer. Its callers follow from the unwinding tables and from its stack, which is read through
//     /proc/self/mem. A thread that has moved meanwhile is read again.
//  2. For a thread that runs, the kernel takes a few samples if perf_event_open() is allowed
//     (thread_samples.h). Otherwise the report only shows that it runs.
#pragma once

#include <vector>

#include "runtime/diagnosis/dumps/dump.h"
#include "runtime/diagnosis/stacks/own_threads.h"

namespace dabke::diagnosis {

/// Returns the positions of at most this many threads, the main thread first. The runtime's own ("dabke-...")
/// are left out. The first line of each is a remark in parentheses on what the thread does; the frames
/// follow. Takes about 20 ms if threads run, and much longer if they are in large libraries, whose symbols
/// must be read.
std::vector<Dump::Stack> thread_places(std::size_t most = kMostThreads);

}  // namespace dabke::diagnosis

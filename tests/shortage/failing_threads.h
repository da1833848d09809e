// Threads that cannot be started, on demand: this program's pthread_create replaces the real one.
#pragma once

namespace dabke::test {

/// From now on, this process can start `before` threads, and the next start fails; or all starts fail.
void let_a_thread_fail(int before);
void let_all_threads_fail();

}  // namespace dabke::test

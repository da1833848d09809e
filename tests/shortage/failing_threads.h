// Threads that cannot be started, on demand: this program's pthread_create stands before the real one.
#pragma once

namespace dabke::test {

/// Lets the thread after `before` others that this process starts from now on fail; or all from there on.
void let_a_thread_fail(int before);
void let_all_threads_fail();

}  // namespace dabke::test

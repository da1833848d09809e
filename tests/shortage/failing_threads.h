// Threads that cannot be started, on demand: this program's pthread_create stands before the real one.
#pragma once

namespace dabke::test {

/// Of those that this process starts from now on: the one after `before` others fails, or all from there on.
void let_a_thread_fail(int before);
void let_all_threads_fail();

}  // namespace dabke::test

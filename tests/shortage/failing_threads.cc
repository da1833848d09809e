#include "tests/shortage/failing_threads.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

namespace {

std::atomic<int> before_failure{-1};
std::atomic<bool> all_fail{false};

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                              void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  const bool fails = all_fail || (before_failure >= 0 && before_failure.fetch_sub(1) == 0);
  return fails ? EAGAIN : create(thread, attributes, body, argument);
}

namespace dabke::test {

void let_a_thread_fail(int before) { before_failure = before; }
void let_all_threads_fail() { all_fail = true; }

}  // namespace dabke::test

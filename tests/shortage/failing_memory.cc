#include "tests/shortage/failing_memory.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

std::atomic<int> requests{0};
std::atomic<int> first_refused{INT_MAX};
std::atomic<int> last_refused{INT_MAX};
thread_local bool counts = false;

bool is_refused() {
  if (!counts) return false;
  const int number = ++requests;
  return number >= first_refused && number <= last_refused;
}

void* take(std::size_t bytes, std::size_t alignment) {
  if (is_refused()) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  void* memory = nullptr;
  return ::posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}

void* take_or_throw(std::size_t bytes, std::size_t alignment = 1) {
  void* const memory = take(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return take_or_throw(bytes); }
void* operator new[](std::size_t bytes) { return take_or_throw(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes, 1); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return take(bytes, alignment);
}

/// Each thread of the runtime sets its name first of all. Threads of other libraries have other names.
extern "C" int pthread_setname_np(pthread_t thread, const char* name) noexcept {
  using Name = int (*)(pthread_t, const char*);
  static const auto set = reinterpret_cast<Name>(::dlsym(RTLD_NEXT, "pthread_setname_np"));
  if (::pthread_equal(thread, ::pthread_self()) != 0 && std::strncmp(name, "dabke-", 6) == 0) counts = true;
  return set(thread, name);
}

namespace dabke::test {

void let_memory_fail(int number, bool from_then_on) {
  requests = 0;
  first_refused = number;
  last_refused = from_then_on ? INT_MAX : number;
}

int memory_requests() { return requests; }

InLibrary::InLibrary() { counts = true; }
InLibrary::~InLibrary() { counts = false; }

}  // namespace dabke::test

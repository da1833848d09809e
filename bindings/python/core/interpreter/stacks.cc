// Python's stacks for stall reports and dumps, also while a thread that hangs holds the interpreter's lock.
//
//   1. faulthandler.register() installs a signal handler that writes the stacks of all Python threads to a
//      file. The handler runs on any thread, and needs neither the lock nor memory. Python documents no other
//      way to the stacks.
//   2. We register it for a real-time signal without a handler, read the handler's address from the kernel,
//      and restore the signal. No signal is ever sent: the provider calls the handler as a function.
//   3. The frames may change while the handler walks them. So the handler runs in a child that shares our
//      memory, and we wait for the child's end, as after vfork. If the handler crashes, the child dies, and
//      the report has the stacks that were written before.
// The file is in memory, so that stacks of any length do not block.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/errors.h"

namespace dabke::python {
namespace {

/// The context of the provider. Never freed: a call may still run when the provider is removed.
struct Source {
  using Handler = void (*)(int);
  Handler handler;
  int signal;
  int file;
};

constexpr std::size_t kStackBytes = 256 << 10;

/// Runs in the child, with signal dispositions of its own: the application's handlers must not run for a
/// crash here.
int write_stacks(void* context) {
  const Source& source = *static_cast<const Source*>(context);
  struct sigaction end {};
  end.sa_handler = [](int) { ::_exit(1); };
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM}) {
    ::sigaction(signal, &end, nullptr);
    ::sigaddset(&ends, signal);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
  ::ualarm(200'000, 0);  // against a list that has become a circle
  source.handler(source.signal);
  ::_exit(0);
}

std::size_t provide(void* context, char* text, std::size_t capacity) {
  const Source& source = *static_cast<const Source*>(context);
  void* const stack =
      ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return 0;
  if (::ftruncate(source.file, 0) != 0 || ::lseek(source.file, 0, SEEK_SET) != 0) return 0;
  // The child sends no signal at its end, so the application's waits for its own children ignore it. The
  // child begins with all signals blocked, so that the application's handlers do not run twice.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const int child =
      ::clone(&write_stacks, static_cast<std::byte*>(stack) + kStackBytes, CLONE_VM | CLONE_VFORK, context);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child > 0) {
    while (::waitpid(child, nullptr, __WCLONE) < 0 && errno == EINTR) {
    }
  }
  ::munmap(stack, kStackBytes);
  const ssize_t got = ::pread(source.file, text, capacity, 0);
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

/// The last real-time signal without a handler; 0 if there is none. The runtime searches from the first on.
int free_signal() {
  for (int signal = SIGRTMAX; signal > SIGRTMIN; --signal) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
        now.sa_handler == SIG_DFL)
      return signal;
  }
  return 0;
}

/// Makes a file in memory that forked programs do not inherit, and gives it to faulthandler.
std::unique_ptr<Source> source_from_faulthandler() {
  const int signal = free_signal();
  const int file = ::memfd_create("python-stacks", MFD_CLOEXEC);
  if (signal == 0 || file < 0) return nullptr;
  nb::module_::import_("faulthandler")
      .attr("register")(signal, nb::arg("file") = file, nb::arg("all_threads") = true,
                        nb::arg("chain") = false);
  struct sigaction registered {};
  struct sigaction unhandled {};
  unhandled.sa_handler = SIG_DFL;
  if (::sigaction(signal, &unhandled, &registered) != 0 || (registered.sa_flags & SA_SIGINFO) != 0 ||
      registered.sa_handler == SIG_DFL || registered.sa_handler == SIG_IGN) {
    return nullptr;
  }
  return std::unique_ptr<Source>(new Source{registered.sa_handler, signal, file});
}

/// Installs the provider. True if the stacks will be in reports.
bool provide_stacks() {
  static Source* const source = source_from_faulthandler().release();
  if (source == nullptr) return false;
  check(dabke_set_stack_provider(&provide, source));
  return true;
}

}  // namespace

void bind_stacks(nb::module_& module) {
  module.def("provide_stacks", &provide_stacks,
             "Puts Python's stacks into stall reports and dumps. Returns True if they will be there.");
  module.def(
      "remove_stack_provider", [] { check(dabke_set_stack_provider(nullptr, nullptr)); },
      "Removes Python's stacks from stall reports and dumps again.");
}

}  // namespace dabke::python

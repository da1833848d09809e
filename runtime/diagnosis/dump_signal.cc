#include "runtime/diagnosis/dump_signal.h"

#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include <fmt/format.h>

#include "runtime/base/threads/dump_signals.h"
#include "runtime/base/threads/thread.h"

namespace dabke::diagnosis {
namespace {

// The handler gets nothing but the signal's number, so it reads the descriptor here; -1 if none is handled.
std::atomic<int> event_of_handler{-1};

/// Ends the thread when it is added to the event's counter, because it exceeds any number of signals.
constexpr std::uint64_t kEnd = std::uint64_t{1} << 40;

void on_dump_signal(int) {
  const int saved = errno;
  const std::uint64_t one = 1;
  (void)!::write(event_of_handler.load(), &one, sizeof one);
  errno = saved;
}

void notify(const std::function<void(const std::string& name)>& on_signal, const std::string& name) {
  try {
    on_signal(name);
  } catch (...) {
    std::fputs("dabke: out of memory: no dumps will be written on a signal\n", stderr);
  }
}

}  // namespace

Result<std::unique_ptr<DumpSignal>> DumpSignal::open(const std::string& text,
                                                     std::function<void(const std::string& name)> on_signal) {
  const auto refused = [&text](const std::string& why) {
    return Status(Code::invalid_argument, fmt::format("DABKE_DUMP_SIGNAL={}: {}", text, why));
  };
  const int signal = dump_signal_number(text);
  if (signal == 0) return refused(fmt::format("expected {}", kDumpSignals));
  const std::string name = fmt::format("SIG{}", ::sigabbrev_np(signal));
  struct sigaction now {};
  ::sigaction(signal, nullptr, &now);
  if (now.sa_handler != SIG_DFL) {
    return refused(fmt::format("this process handles or ignores {} already; choose another signal", name));
  }
  Fd event(::eventfd(0, EFD_CLOEXEC));
  if (!event) return Status(Code::transport, fmt::format("eventfd: {}", ::strerror(errno)));
  int none = -1;
  if (!event_of_handler.compare_exchange_strong(none, event.get()))
    return refused("another runtime of this process handles a signal already");
  std::unique_ptr<DumpSignal> opened(new DumpSignal(signal, std::move(event)));
  DABKE_ASSIGN_OR_RETURN(opened->thread_,
                         start_thread("dabke-dump", [fd = opened->event_.get(), name, on_signal] {
                           std::uint64_t count = 0;
                           while (::read(fd, &count, sizeof count) == sizeof count && count < kEnd)
                             notify(on_signal, name);
                         }));
  struct sigaction ours {};
  ours.sa_handler = &on_dump_signal;
  ours.sa_flags = SA_RESTART | SA_ONSTACK;
  ::sigfillset(&ours.sa_mask);
  ::sigaction(signal, &ours, nullptr);
  return opened;
}

DumpSignal::~DumpSignal() {
  ::signal(signal_, SIG_DFL);
  event_of_handler = -1;
  const std::uint64_t end = kEnd;
  (void)!::write(event_.get(), &end, sizeof end);
}

}  // namespace dabke::diagnosis

#include "runtime/diagnosis/stacks/native_stacks.h"

#include <execinfo.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "runtime/base/clock.h"
#include "runtime/diagnosis/stacks/frames.h"
#include "runtime/diagnosis/stacks/own_threads.h"

namespace dabke::diagnosis {
namespace {

constexpr int kMostFrames = 64;
/// A thread blocks signals while it starts, and in the handler of an earlier request for stacks. A thread
/// that blocks them for longer than this is taken to block them for good.
constexpr Duration kDeafTime = std::chrono::milliseconds(200);
constexpr Duration kDeafPause = std::chrono::milliseconds(2);

/// Returns nothing if the thread has just ended.
std::optional<bool> blocks(int thread, int signal) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("SigBlk:")) continue;
    return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  return std::nullopt;
}

/// Returns a time by the monotonic clock. A step of the wall clock must not make the wait shorter or longer.
timespec monotonic_clock_in(std::chrono::nanoseconds time) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto then = std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec) + time;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(then);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((then - seconds).count())};
}

}  // namespace

struct NativeStacks::Record {
  std::atomic<bool> is_asked{false};  // orders the making of the record before its use in the handler
  // Repeats the state of the semaphore for race detectors that do not support sem_clockwait.
  std::atomic<bool> is_filled{false};
  sem_t full;
  int frame_count = 0;
  std::array<void*, kMostFrames> frames{};
  void* interrupted_at = nullptr;

  Record() { ::sem_init(&full, 0, 0); }
  ~Record() { ::sem_destroy(&full); }

  bool wait(const timespec& deadline) {
    while (::sem_clockwait(&full, CLOCK_MONOTONIC, &deadline) != 0) {
      if (errno != EINTR) return false;
    }
    return is_filled.load(std::memory_order_acquire);
  }

  static void on_signal(int, siginfo_t* info, void* context) {
    if (info->si_code != SI_QUEUE || info->si_pid != ::getpid()) return;  // not a signal of this class
    const int saved = errno;
    auto* record = static_cast<Record*>(info->si_value.sival_ptr);
    if (!record->is_asked.load(std::memory_order_acquire)) return;
    record->interrupted_at = program_counter(context);
    record->frame_count = ::backtrace(record->frames.data(), kMostFrames);
    record->is_filled.store(true, std::memory_order_release);
    ::sem_post(&record->full);
    errno = saved;
  }

  static void* program_counter(const void* context) {
    const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return reinterpret_cast<void*>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return reinterpret_cast<void*>(machine.pc);
#else
    (void)machine;
    return nullptr;
#endif
  }

  /// Returns the frames without the handler's own.
  std::vector<void*> addresses() const {
    const auto end = frames.begin() + frame_count;
    auto begin = std::find(frames.begin(), end, interrupted_at);
    if (begin == end) begin = frames.begin();
    return {begin, end};
  }
};

NativeStacks::NativeStacks(std::chrono::milliseconds answer_time) : answer_time_(answer_time) {}

NativeStacks::~NativeStacks() {
  for (auto& record : unanswered_) (void)record.release();  // a thread may still fill it
}

/// Returns -1 if no signal is free.
int NativeStacks::choose_signal() {
  // The first unwinding loads libgcc_s, which a handler must not do.
  std::array<void*, 4> warm{};
  (void)::backtrace(warm.data(), static_cast<int>(warm.size()));
  for (int signal = SIGRTMIN + 1; signal < SIGRTMAX; ++signal) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0) continue;
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &Record::on_signal) return signal;
    if (now.sa_handler != SIG_DFL) continue;
    struct sigaction ours {};
    ours.sa_sigaction = &Record::on_signal;
    ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    ::sigfillset(&ours.sa_mask);
    if (::sigaction(signal, &ours, nullptr) == 0) return signal;
  }
  return -1;
}

/// Returns false if the thread has ended.
bool NativeStacks::ask(int thread, int signal, Record& record) {
  record.is_asked.store(true, std::memory_order_release);
  siginfo_t info{};
  info.si_signo = signal;
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_ptr = &record;
  return ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), thread, signal, &info) == 0;
}

std::vector<Dump::Stack> NativeStacks::take() {
  struct Asked {
    std::size_t stack;
    std::unique_ptr<Record> record;
  };
  const Frames names;
  std::vector<Dump::Stack> stacks;
  std::vector<Asked> asked;
  struct Deaf {
    std::size_t stack;
    int thread;
  };
  std::vector<Deaf> deaf;
  const int signal = choose_signal();
  if (signal < 0) return stacks;
  const int self = static_cast<int>(::syscall(SYS_gettid));
  for (const int thread : threads_of_this_process()) {
    if (stacks.size() == kMostThreads) break;
    Dump::Stack stack{thread, line_of_thread(thread, "comm"), {}};
    if (is_own_thread_name(stack.name)) continue;
    const auto is_blocked = blocks(thread, signal);
    if (!is_blocked) continue;
    if (thread == self) {
      std::array<void*, kMostFrames> frames{};
      const int count = ::backtrace(frames.data(), kMostFrames);
      stack.frames = names.describe({frames.begin(), frames.begin() + count});
    } else if (*is_blocked) {
      stack.frames = {"(this thread blocks signals)"};
      deaf.push_back({stacks.size(), thread});
    } else {
      auto record = std::make_unique<Record>();
      if (!ask(thread, signal, *record)) continue;
      asked.push_back({stacks.size(), std::move(record)});
    }
    stacks.push_back(std::move(stack));
  }
  for (const TimePoint until = Clock::now() + kDeafTime; !deaf.empty() && Clock::now() < until;) {
    std::erase_if(deaf, [&](const Deaf& one) {
      if (blocks(one.thread, signal).value_or(true)) return false;
      auto record = std::make_unique<Record>();
      if (ask(one.thread, signal, *record)) asked.push_back({one.stack, std::move(record)});
      return true;
    });
    if (!deaf.empty()) std::this_thread::sleep_for(kDeafPause);
  }
  const timespec deadline = monotonic_clock_in(answer_time_);
  for (Asked& one : asked) {
    if (one.record->wait(deadline)) {
      stacks[one.stack].frames = names.describe(one.record->addresses());
    } else {
      stacks[one.stack].frames = {
          "(this thread does not answer: the process is stopped or the thread hangs in the kernel)"};
      unanswered_.push_back(std::move(one.record));
    }
  }
  return stacks;
}

}  // namespace dabke::diagnosis

#include "runtime/diagnosis/stacks/thread_places.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "runtime/base/threads/owned.h"
#include "runtime/diagnosis/stacks/frames.h"
#include "runtime/diagnosis/stacks/thread_samples.h"

namespace dabke::diagnosis {
namespace {

// Attempts to read a thread that falls asleep or wakes up meanwhile.
constexpr int kMostLooks = 3;

/// Returns 'S' for "S (sleeping)"; 0 if the thread has ended.
char state_of(int thread) {
  const std::string stat = line_of_thread(thread, "stat");
  const auto name_end = stat.rfind(") ");
  return name_end == std::string::npos ? '\0' : stat[name_end + 2];
}

/// Returns the registers of a thread that waits in the kernel; nothing if it does not.
std::optional<UserRegisters> waits_at(int thread) {
  const std::string line = line_of_thread(thread, "syscall");
  if (line.empty() || line.starts_with("running")) return std::nullopt;
  std::istringstream words(line);
  std::vector<std::string> all;
  for (std::string word; words >> word;) all.push_back(std::move(word));
  if (all.size() < 3) return std::nullopt;  // the last two: stack pointer, program counter
  UserRegisters registers;
  registers.sp = std::stoull(all[all.size() - 2], nullptr, 16);
  registers.pc = std::stoull(all.back(), nullptr, 16);
  return registers;
}

/// Reads words of this process's memory if they can be read. Addresses from another thread's
/// stack may be invalid by now.
ReadWord memory_reader(const Fd& memory) {
  return [&memory](std::uintptr_t address, std::uint64_t& word) {
    return ::pread(memory.get(), &word, sizeof word, static_cast<off_t>(address)) ==
           static_cast<ssize_t>(sizeof word);
  };
}

std::string what_it_does(int thread, char state) {
  const std::string where = line_of_thread(thread, "wchan");
  const std::string in = where.empty() || where == "0" ? "" : ": " + where;
  switch (state) {
    case 'D': return fmt::format("(waits in the kernel and cannot be interrupted{})", in);
    case 'T': return "(stopped)";
    case 't': return "(stopped by a debugger)";
    default: return fmt::format("(asleep in the kernel{})", in);
  }
}

class ThreadLook {
 public:
  std::vector<Dump::Stack> take(std::size_t most) {
    const int self = static_cast<int>(::syscall(SYS_gettid));
    std::vector<Dump::Stack> stacks;
    std::vector<std::size_t> running;
    for (const int thread : threads_of_this_process()) {
      if (stacks.size() == most) break;
      Dump::Stack stack{thread, line_of_thread(thread, "comm"), {}};
      if (thread == self || is_own_thread_name(stack.name)) continue;
      const char state = state_of(thread);
      if (state == '\0' || state == 'Z' || state == 'X') continue;
      if (!describe_waiting(stack)) running.push_back(stacks.size());
      stacks.push_back(std::move(stack));
    }
    describe_running(stacks, running);
    return stacks;
  }

 private:
  /// Returns false if the thread does not wait.
  bool describe_waiting(Dump::Stack& stack) const {
    for (int look = 0; look < kMostLooks; ++look) {
      const auto at = waits_at(stack.thread);
      if (!at) continue;
      const std::string does = what_it_does(stack.thread, state_of(stack.thread));
      const auto addresses = frames_.unwind(*at, memory_reader(memory_));
      const auto still = waits_at(stack.thread);
      if (!still || still->pc != at->pc || still->sp != at->sp) continue;
      stack.frames = frames_.describe(addresses);
      stack.frames.insert(stack.frames.begin(), does);
      return true;
    }
    return false;
  }

  void describe_running(std::vector<Dump::Stack>& stacks, const std::vector<std::size_t>& running) const {
    std::vector<int> threads;
    for (const std::size_t i : running) threads.push_back(stacks[i].thread);
    const std::vector<ThreadSample> samples = sample_threads(threads);
    for (std::size_t i = 0; i < running.size(); ++i) {
      Dump::Stack& stack = stacks[running[i]];
      const ThreadSample& sample = samples[i];
      if (!sample.error.empty()) {
        stack.frames = {fmt::format("(running; its place is unknown: {})", sample.error)};
      } else if (sample.counters.empty()) {
        // The thread did not get a core while it was sampled, or it waits now.
        if (!describe_waiting(stack)) stack.frames = {"(running, and waits for a core)"};
      } else {
        stack.frames = frames_.describe(frames_.unwind(sample.last, stack_reader(sample)));
        stack.frames.insert(stack.frames.begin(), "(running" + also_seen(sample) + ")");
      }
    }
  }

  /// Reads the stack as it was when the sample was taken. The thread has changed it since.
  static ReadWord stack_reader(const ThreadSample& sample) {
    return [&sample](std::uintptr_t address, std::uint64_t& word) {
      const std::uintptr_t offset = address - sample.last.sp;
      if (address < sample.last.sp || offset + sizeof word > sample.stack.size()) return false;
      std::copy_n(sample.stack.begin() + static_cast<std::ptrdiff_t>(offset), sizeof word,
                  reinterpret_cast<std::byte*>(&word));
      return true;
    };
  }

  /// Returns the functions of earlier samples, since a loop passes through several.
  std::string also_seen(const ThreadSample& sample) const {
    constexpr std::size_t kShown = 3;
    std::vector<std::string> seen;
    const std::string last = frames_.describe({reinterpret_cast<void*>(sample.last.pc)}).front();
    for (const std::uintptr_t counter : sample.counters) {
      const std::string frame = frames_.describe({reinterpret_cast<void*>(counter)}).front();
      if (frame != last && std::ranges::find(seen, frame) == seen.end()) seen.push_back(frame);
      if (seen.size() == kShown) break;
    }
    return seen.empty() ? "" : fmt::format("; a moment before in {}", fmt::join(seen, ", "));
  }

  const Frames frames_;
  const Fd memory_{::open("/proc/self/mem", O_RDONLY | O_CLOEXEC)};
};

}  // namespace

std::vector<Dump::Stack> thread_places(std::size_t most) { return ThreadLook().take(most); }

}  // namespace dabke::diagnosis

#include "runtime/diagnosis/stacks/thread_samples.h"

#include <linux/perf_event.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "runtime/base/clock.h"
#include "runtime/base/threads/owned.h"

namespace dabke::diagnosis {
namespace {

constexpr std::uint64_t kPeriodNs = 2'000'000;  // in CPU time of the thread
constexpr auto kSampleTime = std::chrono::milliseconds(20);
constexpr std::uint32_t kStackBytes = 4096;
constexpr std::size_t kRingPages = 16;   // a power of two
constexpr std::size_t kMostSampled = 4;  // the memory that a user may lock is limited

// The registers that the kernel returns, in its order, with their DWARF numbers.
constexpr int kProgramCounter = -1;
constexpr int kStackPointer = -2;
struct Register {
  unsigned bit;
  int dwarf;
};
#if defined(__x86_64__)
constexpr std::array<Register, 12> kRegisters{{
    {1, 3},
    {6, 6},
    {7, kStackPointer},
    {8, kProgramCounter},  // rbx, rbp, rsp, rip
    {16, 8},
    {17, 9},
    {18, 10},
    {19, 11},
    {20, 12},
    {21, 13},
    {22, 14},
    {23, 15},  // r8 to r15
}};
#elif defined(__aarch64__)
constexpr std::array<Register, 5> kRegisters{
    {{19, 19}, {29, 29}, {30, 30}, {31, kStackPointer}, {32, kProgramCounter}}};
#else
constexpr std::array<Register, 0> kRegisters{};
#endif
constexpr std::size_t kRegisterCount = kRegisters.size();

std::uint64_t register_mask() {
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < kRegisterCount; ++i) mask |= std::uint64_t{1} << kRegisters[i].bit;
  return mask;
}

struct Unmap {
  std::size_t bytes = 0;
  void operator()(void* memory) const { ::munmap(memory, bytes); }
};

/// The event of one thread, and the ring into which the kernel writes its samples.
class Sampler {
 public:
  explicit Sampler(int thread) {
    perf_event_attr attributes{};
    attributes.size = sizeof attributes;
    attributes.type = PERF_TYPE_SOFTWARE;
    attributes.config = PERF_COUNT_SW_TASK_CLOCK;
    attributes.sample_period = kPeriodNs;
    attributes.sample_type = PERF_SAMPLE_IP;
    if (kRegisterCount > 0) {
      attributes.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
      attributes.sample_regs_user = register_mask();
      attributes.sample_stack_user = kStackBytes;
    }
    attributes.exclude_kernel = 1;
    attributes.exclude_hv = 1;
    event_ = Fd(
        static_cast<int>(::syscall(SYS_perf_event_open, &attributes, thread, -1, -1, PERF_FLAG_FD_CLOEXEC)));
    if (!event_) {
      refuse("perf_event_open");
      return;
    }
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t bytes = (1 + kRingPages) * page;
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, event_.get(), 0);
    if (memory == MAP_FAILED) {
      refuse("perf_event_open, mmap");
      return;
    }
    ring_ = {memory, Unmap{bytes}};
    data_ = static_cast<const std::byte*>(memory) + page;
    size_ = kRingPages * page;
  }

  ThreadSample take() {
    ThreadSample sample;
    sample.error = error_;
    if (!ring_) return sample;
    auto* const page = static_cast<perf_event_mmap_page*>(ring_.get());
    const std::uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
    // The ring is not overwritten: when it is full, the kernel drops new samples.
    for (std::uint64_t at = page->data_tail; at < head;) {
      perf_event_header header{};
      copy(at, &header, sizeof header);
      if (header.size < sizeof header) break;
      if (header.type == PERF_RECORD_SAMPLE) read_sample(at + sizeof header, at + header.size, sample);
      at += header.size;
    }
    return sample;
  }

 private:
  void refuse(const char* what) {
    error_ = fmt::format("{}: {}; set kernel.perf_event_paranoid to 2 or less to see it", what,
                         std::strerror(errno));
  }

  void copy(std::uint64_t at, void* to, std::size_t bytes) const {
    auto* out = static_cast<std::byte*>(to);
    for (std::size_t i = 0; i < bytes; ++i) out[i] = data_[(at + i) % size_];
  }

  /// Reads the layout that perf_event_open(2) documents for the requested fields.
  void read_sample(std::uint64_t at, std::uint64_t end, ThreadSample& sample) const {
    const auto next = [&] {
      std::uint64_t word = 0;
      if (at + sizeof word <= end) copy(at, &word, sizeof word);
      at += sizeof word;
      return word;
    };
    UserRegisters registers{.pc = next(), .sp = 0, .others = {}};
    sample.counters.push_back(registers.pc);
    sample.last = registers;
    sample.stack.clear();
    if (kRegisterCount == 0 || next() == PERF_SAMPLE_REGS_ABI_NONE) return;
    for (std::size_t i = 0; i < kRegisterCount; ++i) {
      const std::uint64_t value = next();
      if (kRegisters[i].dwarf == kProgramCounter) {
        registers.pc = value;
      } else if (kRegisters[i].dwarf == kStackPointer) {
        registers.sp = value;
      } else {
        registers.others.emplace_back(static_cast<unsigned>(kRegisters[i].dwarf), value);
      }
    }
    sample.last = registers;
    const std::uint64_t reserved = next();
    if (reserved > kStackBytes || at + reserved + sizeof(std::uint64_t) > end) return;
    const std::uint64_t stack = at;
    at += reserved;
    const std::uint64_t filled = std::min(next(), reserved);
    sample.stack.resize(filled);
    copy(stack, sample.stack.data(), filled);
  }

  std::string error_;
  Fd event_;
  std::unique_ptr<void, Unmap> ring_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace

std::vector<ThreadSample> sample_threads(const std::vector<int>& threads) {
  std::vector<ThreadSample> samples(threads.size());
  if (threads.empty()) return samples;
  std::vector<Sampler> samplers;
  for (std::size_t i = 0; i < std::min(threads.size(), kMostSampled); ++i) samplers.emplace_back(threads[i]);
  (void)::poll(nullptr, 0, static_cast<int>(kSampleTime.count()));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (i < samplers.size()) {
      samples[i] = samplers[i].take();
    } else {
      samples[i].error =
          fmt::format("of {} threads that run at the same time {} are sampled", threads.size(), kMostSampled);
    }
  }
  return samples;
}

}  // namespace dabke::diagnosis

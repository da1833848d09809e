// The fake CUDA driver: libcuda.so.1 (fake_cuda.h describes it).
#include "tests/fake_cuda/fake_cuda.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/fake_cuda/host_kernels.h"

using namespace dabke::cuda;
using dabke::test::HostKernel;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Rule {
  std::string call;
  int device = -1;  // -1: every device
  int nth = 1;
  std::string what;
};

/// The state of the process. Never destroyed, because streams may still run when the process ends.
struct Machine {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Rule> rules;
  std::map<std::pair<std::string, int>, int> calls;
  std::minstd_rand random;
  bool has_delays = false;
  std::map<int, Error> lost;  // devices, and the reasons
  std::map<std::uintptr_t, std::pair<std::size_t, int>> memory;
  std::set<std::pair<Function, int>> loaded;  // kernels, and their devices
  int devices = 8;

  Machine() {
    const auto text = [](const char* name) { return std::getenv(name) != nullptr ? std::getenv(name) : ""; };
    if (*text("FAKE_CUDA_DEVICES") != '\0') devices = std::atoi(text("FAKE_CUDA_DEVICES"));
    plan(text("FAKE_CUDA_PLAN"), static_cast<unsigned>(std::atoi(text("FAKE_CUDA_SEED"))));
    std::fprintf(stderr, "fake_cuda: this is a double of the CUDA driver for tests; there is no GPU\n");
  }
  void plan(std::string text, unsigned seed) {
    rules.clear();
    calls.clear();
    lost.clear();
    random.seed(seed);
    has_delays = seed != 0;
    std::istringstream all(text);
    for (std::string one; std::getline(all, one, ';');) {
      std::istringstream words(one);
      Rule rule;
      std::string device;
      if (!(words >> rule.call >> device >> rule.nth >> rule.what)) continue;
      if (device != "*") rule.device = std::stoi(device);
      rules.push_back(rule);
    }
  }
};
Machine& machine() {
  static Machine& one = *new Machine;
  return one;
}

}  // namespace

namespace dabke::cuda {

struct CUctx_st {
  int device = 0;
};

struct CUstream_st {
  CUstream_st(int of, bool blocks) : device(of), is_blocking(blocks), thread([this] { loop(); }) {}
  void enqueue(std::function<void()> run) {
    {
      const std::lock_guard lock(mutex);
      if (is_captured) return;
      queue.push_back(std::move(run));
      ++enqueued;
    }
    changed.notify_all();
  }
  void loop() {
    std::fesetenv(FE_DFL_ENV);  // a device does not share the floating-point modes of the host's threads
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return ends || !queue.empty(); });
      if (queue.empty()) return;
      const auto run = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      fake_cuda_delay();
      run();
      lock.lock();
      ++done;
      changed.notify_all();
    }
  }
  void await_all() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this, until = enqueued] { return done >= until; });
  }
  const int device;
  const bool is_blocking;  // the legacy stream and this one wait for each other
  std::mutex mutex;
  std::condition_variable changed;
  bool is_captured = false;
  std::deque<std::function<void()>> queue;
  std::uint64_t enqueued = 0;
  std::uint64_t done = 0;
  bool ends = false;
  std::thread thread;
};

struct CUevent_st {
  /// The point where the event was recorded. A waiting stream keeps it, even if the event is recorded again.
  struct Point {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_reached = false;
    std::chrono::steady_clock::time_point reached_at;
  };
  /// Returns null if the event was not recorded.
  std::shared_ptr<Point> last() {
    const std::lock_guard lock(mutex);
    return point;
  }
  const int device = 0;
  const bool has_time = true;
  std::mutex mutex;
  std::shared_ptr<Point> point;
  bool is_captured = false;
};

struct CUmod_st {};

}  // namespace dabke::cuda

namespace {

std::mutex streams_mutex;
std::map<CUstream_st*, std::shared_ptr<CUstream_st>>& streams() {
  static auto& all = *new std::map<CUstream_st*, std::shared_ptr<CUstream_st>>;
  return all;
}

std::atomic<std::uint64_t> timed_events{0};
std::atomic<std::uint64_t> kernels_run[64];  // by device
std::atomic<double> clock_rate{1};           // speed of the devices' clocks, relative to the host's

thread_local std::vector<CUctx_st*> contexts;
thread_local int capture_mode = 0;
thread_local int captures_here = 0;  // captures that this thread has begun

CUstream_st* make_stream(int device, bool is_blocking) {
  auto made = std::make_shared<CUstream_st>(device, is_blocking);
  const std::lock_guard lock(streams_mutex);
  return streams().emplace(made.get(), std::move(made)).first->first;
}

bool is_number(Stream stream) { return reinterpret_cast<std::uintptr_t>(stream) <= kPerThreadStream; }
bool is_legacy(Stream stream) { return reinterpret_cast<std::uintptr_t>(stream) <= kLegacyStream; }

/// The stream of a handle, in the current context.
CUstream_st* resolve(Stream stream) {
  if (!is_number(stream)) return stream;
  return fake_cuda_default_stream(is_legacy(stream) ? kLegacyStream : kPerThreadStream,
                                  fake_cuda_current_device());
}

bool is_captured(CUstream_st* stream) {
  const std::lock_guard lock(stream->mutex);
  return stream->is_captured;
}

/// True if a blocking stream of the device is being captured. The legacy stream waits for all blocking
/// streams, and cannot wait for a captured one.
bool is_any_captured(int device) {
  const std::lock_guard lock(streams_mutex);
  return std::any_of(streams().begin(), streams().end(), [&](const auto& row) {
    return row.first->device == device && row.first->is_blocking && is_captured(row.first);
  });
}

/// The result of a call that is not enqueued, and so cannot be captured. It is an error unless the
/// thread's capture mode allows such calls.
Error outside_of_captures() {
  if (capture_mode == kCaptureRelaxed) return kSuccess;
  return capture_mode != kCaptureThreadLocal || captures_here != 0 ? kCaptureUnsupported : kSuccess;
}

CUctx_st* context_of(int device) {
  static std::vector<CUctx_st>& all = *new std::vector<CUctx_st>([] {
    std::vector<CUctx_st> made(64);
    for (std::size_t i = 0; i < made.size(); ++i) made[i].device = static_cast<int>(i);
    return made;
  }());
  return &all[static_cast<std::size_t>(device)];
}

/// Returns an error unless there is a context, which is that of `device` if one is given. Faults of the
/// plan and lost devices are errors, too.
Error enter(const char* call, int device = -1) {
  const int current = fake_cuda_current_device();
  if (current < 0 || (device >= 0 && device != current)) return kInvalidContext;
  const int outcome = fake_cuda_outcome(call, current);
  if (outcome > 0) return outcome;
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  const auto lost = all.lost.find(current);
  return lost == all.lost.end() ? kSuccess : lost->second;
}
#define ENTER(...)                                                               \
  do {                                                                           \
    if (const Error error = enter(__VA_ARGS__); error != kSuccess) return error; \
  } while (false)

/// Ends the process if there is no context. For calls whose results nobody checks.
void must_have_context(const char* call) {
  if (fake_cuda_current_device() >= 0) return;
  std::fprintf(stderr, "fake_cuda: %s without a context\n", call);
  std::abort();
}

bool is_memory(Pointer at, std::size_t bytes) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  auto found = all.memory.upper_bound(static_cast<std::uintptr_t>(at));
  if (found == all.memory.begin()) return false;
  --found;
  return at + bytes <= found->first + found->second.first;
}

}  // namespace

EXPORT void fake_cuda_plan(const char* plan, unsigned seed) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  all.plan(plan, seed);
}

EXPORT int fake_cuda_outcome(const char* call, int device) {
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  if (all.rules.empty()) return 0;
  const int nth = ++all.calls[{call, device}];
  for (const Rule& rule : all.rules) {
    if (rule.call != call || rule.nth != nth || (rule.device >= 0 && rule.device != device)) continue;
    if (rule.what == "hang") return dabke::test::kHangs;
    if (rule.what == "never") return dabke::test::kHangsForGood;
    if (rule.what == "exit") ::_exit(9);
    if (rule.what.starts_with("takes=")) return dabke::test::kTakes - std::stoi(rule.what.substr(6));
    if (rule.what.starts_with("async=")) return dabke::test::kEndsWith - std::stoi(rule.what.substr(6));
    const int error = std::stoi(rule.what);
    if (error >= kIllegalAddress && std::strncmp(call, "cu", 2) == 0 && device >= 0) all.lost[device] = error;
    return error;
  }
  return 0;
}

EXPORT std::uint64_t fake_cuda_timed_events() { return timed_events; }
EXPORT std::uint64_t fake_cuda_kernels_run(int device) { return kernels_run[device]; }
EXPORT void fake_cuda_clock_rate(double rate) { clock_rate = rate; }
EXPORT Stream fake_cuda_open_stream(int device) { return make_stream(device, true); }
EXPORT Stream fake_cuda_default_stream(std::uintptr_t handle, int device) {
  static std::mutex& mutex = *new std::mutex;
  static auto& all = *new std::map<std::pair<int, std::thread::id>, CUstream_st*>;
  const auto owner = handle == kPerThreadStream ? std::this_thread::get_id() : std::thread::id();
  const std::lock_guard lock(mutex);
  CUstream_st*& one = all[{device, owner}];
  if (one == nullptr) one = make_stream(device, handle == kPerThreadStream);
  return one;
}
EXPORT void fake_cuda_synchronize(Stream stream) { stream->await_all(); }
EXPORT void fake_cuda_capture(Stream stream, bool begins) {
  const std::lock_guard lock(stream->mutex);
  stream->is_captured = begins;
  captures_here += begins ? 1 : -1;
}

EXPORT int fake_cuda_current_device() { return contexts.empty() ? -1 : contexts.back()->device; }
EXPORT int fake_cuda_stream_device(Stream stream) { return stream->device; }
EXPORT void fake_cuda_enqueue(Stream stream, void (*run)(void*), void* argument) {
  stream->enqueue([=] { run(argument); });
}
EXPORT std::uint64_t fake_cuda_enqueued(Stream stream) {
  const std::lock_guard lock(stream->mutex);
  return stream->enqueued;
}
EXPORT void fake_cuda_delay() {
  Machine& all = machine();
  std::chrono::microseconds pause{0};
  {
    const std::lock_guard lock(all.mutex);
    if (all.has_delays && all.random() % 8 == 0) pause = std::chrono::microseconds(all.random() % 300);
  }
  if (pause.count() != 0) std::this_thread::sleep_for(pause);
}

EXPORT Error cuInit(unsigned) {
  const int outcome = fake_cuda_outcome("cuInit", -1);
  return outcome > 0 ? outcome : kSuccess;
}
EXPORT Error cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
EXPORT Error cuDeviceGetCount(int* count) {
  *count = machine().devices;
  return kSuccess;
}
EXPORT Error cuDeviceGet(DeviceHandle* device, int index) {
  if (index < 0 || index >= machine().devices) return kInvalidDevice;
  *device = index;
  return kSuccess;
}
EXPORT Error cuDeviceGetName(char* name, int bytes, DeviceHandle) {
  std::snprintf(name, static_cast<std::size_t>(bytes), "a double of a GPU");
  return kSuccess;
}
EXPORT Error cuDevicePrimaryCtxRetain(Context* context, DeviceHandle device) {
  const int outcome = fake_cuda_outcome("cuDevicePrimaryCtxRetain", device);
  if (outcome > 0) return outcome;
  *context = context_of(device);
  return kSuccess;
}
EXPORT Error cuDevicePrimaryCtxRelease_v2(DeviceHandle) { return kSuccess; }
EXPORT Error cuCtxPushCurrent_v2(Context context) {
  contexts.push_back(context);
  return kSuccess;
}
EXPORT Error cuCtxPopCurrent_v2(Context* context) {
  if (contexts.empty()) return kInvalidContext;
  *context = contexts.back();
  contexts.pop_back();
  return kSuccess;
}
EXPORT Error cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  ENTER("cuCtxGetStreamPriorityRange");
  *least = 0;
  *greatest = -5;
  return kSuccess;
}
EXPORT Error cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return kSuccess;
}

EXPORT Error cuStreamIsCapturing(Stream stream, int* status) {
  ENTER("cuStreamIsCapturing");
  CUstream_st* const asked = resolve(stream);
  if (is_legacy(stream) && is_any_captured(asked->device)) return kCaptureImplicit;
  *status = is_captured(asked) ? kCapturing : kNotCapturing;
  return kSuccess;
}
EXPORT Error cuStreamCreateWithPriority(Stream* stream, unsigned flags, int) {
  ENTER("cuStreamCreateWithPriority");
  *stream = make_stream(fake_cuda_current_device(), (flags & kStreamNonBlocking) == 0);
  return kSuccess;
}
EXPORT Error cuStreamDestroy_v2(Stream stream) {
  ENTER("cuStreamDestroy", stream->device);
  std::shared_ptr<CUstream_st> gone;
  {
    const std::lock_guard lock(streams_mutex);
    gone = streams().at(stream);
    streams().erase(stream);
  }
  {
    const std::lock_guard lock(gone->mutex);
    gone->ends = true;
  }
  gone->changed.notify_all();
  gone->thread.join();  // the real driver returns at once
  return kSuccess;
}

EXPORT Error cuEventCreate(Event* event, unsigned flags) {
  ENTER("cuEventCreate");
  const bool has_time = (flags & kEventDisableTiming) == 0;
  *event = new CUevent_st{.device = fake_cuda_current_device(), .has_time = has_time};
  return kSuccess;
}
EXPORT Error cuEventDestroy_v2(Event event) {
  delete event;
  return kSuccess;
}
EXPORT Error cuEventRecord(Event event, Stream stream) {
  ENTER("cuEventRecord", event->device);
  CUstream_st* const on = resolve(stream);
  if (on->device != event->device) return kInvalidHandle;
  if (is_legacy(stream) && is_any_captured(on->device)) return kCaptureImplicit;
  if (event->has_time) ++timed_events;
  const auto point = std::make_shared<CUevent_st::Point>();
  {
    const bool captured = is_captured(on);
    const std::lock_guard lock(event->mutex);
    event->is_captured = captured;
    if (captured) return kSuccess;
    event->point = point;
  }
  on->enqueue([point] {
    {
      const std::lock_guard lock(point->mutex);
      point->is_reached = true;
      point->reached_at = std::chrono::steady_clock::now();
    }
    point->changed.notify_all();
  });
  return kSuccess;
}
EXPORT Error cuEventQuery(Event event) {
  if (const Error error = outside_of_captures(); error != kSuccess) return error;
  ENTER("cuEventQuery", event->device);
  {
    const std::lock_guard lock(event->mutex);
    if (event->is_captured) return kCapturedEvent;
  }
  const auto point = event->last();
  if (point == nullptr) return kSuccess;
  const std::lock_guard lock(point->mutex);
  return point->is_reached ? kSuccess : kNotReady;
}
EXPORT Error cuEventElapsedTime(float* milliseconds, Event start, Event end) {
  ENTER("cuEventElapsedTime", start->device);
  if (!start->has_time || !end->has_time || start->device != end->device) return kInvalidHandle;
  std::chrono::steady_clock::time_point at[2];
  Event const events[] = {start, end};
  for (int i = 0; i < 2; ++i) {
    const auto point = events[i]->last();
    if (point == nullptr) return kInvalidHandle;
    const std::lock_guard lock(point->mutex);
    if (!point->is_reached) return kNotReady;
    at[i] = point->reached_at;
  }
  const std::chrono::duration<double, std::milli> between = at[1] - at[0];
  *milliseconds = static_cast<float>(between.count() * clock_rate.load());
  return kSuccess;
}
EXPORT Error cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  ENTER("cuStreamWaitEvent", is_number(stream) ? -1 : stream->device);
  CUstream_st* const waiting = resolve(stream);
  if (is_legacy(stream) && is_any_captured(waiting->device)) return kCaptureImplicit;
  bool joins_capture = false;
  {
    const std::lock_guard lock(event->mutex);
    joins_capture = event->is_captured;
  }
  if (joins_capture) {
    const std::lock_guard lock(waiting->mutex);
    waiting->is_captured = true;
    return kSuccess;
  }
  const auto point = event->last();
  if (point == nullptr) return kSuccess;
  waiting->enqueue([point] {
    std::unique_lock lock(point->mutex);
    point->changed.wait(lock, [&] { return point->is_reached; });
  });
  return kSuccess;
}

EXPORT Event fake_cuda_record(Stream stream) {
  const auto event = new CUevent_st{stream->device};
  contexts.push_back(context_of(stream->device));
  (void)cuEventRecord(event, stream);
  contexts.pop_back();
  return event;
}

EXPORT void* fake_cuda_allocate(int device, std::size_t bytes) {
  void* const made =
      bytes > (std::size_t{1} << 40) ? nullptr : std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (made == nullptr) return nullptr;
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  all.memory[reinterpret_cast<std::uintptr_t>(made)] = {bytes, device};
  return made;
}
EXPORT Error cuMemAlloc_v2(Pointer* memory, std::size_t bytes) {
  ENTER("cuMemAlloc");
  if (const Error error = outside_of_captures(); error != kSuccess) return error;
  if (bytes == 0) return kInvalidValue;
  *memory = reinterpret_cast<Pointer>(fake_cuda_allocate(fake_cuda_current_device(), bytes));
  return *memory != 0 ? kSuccess : kOutOfMemory;
}
EXPORT Error cuMemFree_v2(Pointer memory) {
  must_have_context("cuMemFree");
  return fake_cuda_free(memory);
}
EXPORT Error fake_cuda_free(Pointer memory) {
  Machine& all = machine();
  int device = -1;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.memory.find(static_cast<std::uintptr_t>(memory));
    if (found == all.memory.end()) {
      std::fprintf(stderr, "fake_cuda: cuMemFree of memory that it does not have\n");
      std::abort();
    }
    device = found->second.second;
  }
  // Like the driver, this waits until the device has finished everything that may use the memory.
  std::vector<std::shared_ptr<CUstream_st>> of_device;
  {
    const std::lock_guard lock(streams_mutex);
    for (const auto& [key, stream] : streams()) {
      if (stream->device == device) of_device.push_back(stream);
    }
  }
  for (const auto& stream : of_device) {
    if (stream->thread.get_id() != std::this_thread::get_id()) stream->await_all();
  }
  {
    const std::lock_guard lock(all.mutex);
    all.memory.erase(static_cast<std::uintptr_t>(memory));
  }
  std::free(reinterpret_cast<void*>(memory));
  return kSuccess;
}
EXPORT Error cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  ENTER("cuMemHostAlloc");
  if (const Error error = outside_of_captures(); error != kSuccess) return error;
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return *memory != nullptr ? kSuccess : kOutOfMemory;
}
EXPORT Error cuMemFreeHost(void* memory) {
  must_have_context("cuMemFreeHost");
  std::free(memory);
  return kSuccess;
}
EXPORT Error cuMemcpyHtoDAsync_v2(Pointer to, const void* from, std::size_t bytes, Stream stream) {
  ENTER("cuMemcpyHtoDAsync", stream->device);
  if (!is_memory(to, bytes)) return kInvalidValue;
  stream->enqueue([=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
  return kSuccess;
}
EXPORT Error cuMemcpyDtoHAsync_v2(void* to, Pointer from, std::size_t bytes, Stream stream) {
  ENTER("cuMemcpyDtoHAsync", stream->device);
  if (!is_memory(from, bytes)) return kInvalidValue;
  stream->enqueue([=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
  return kSuccess;
}
/// Only tests/gpu uses this.
EXPORT Error cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, std::size_t bytes, Stream stream) {
  ENTER("cuMemcpyDtoDAsync", stream->device);
  if (!is_memory(to, bytes) || !is_memory(from, bytes)) return kInvalidValue;
  stream->enqueue(
      [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
  return kSuccess;
}
EXPORT Error cuMemsetD8Async(Pointer to, unsigned char value, std::size_t bytes, Stream stream) {
  ENTER("cuMemsetD8Async", stream->device);
  if (!is_memory(to, bytes)) return kInvalidValue;
  stream->enqueue([=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return kSuccess;
}

EXPORT Error cuModuleLoadData(Module* module, const void* image) {
  ENTER("cuModuleLoadData");
  // The first bytes of a file that nvcc -fatbin writes.
  constexpr unsigned kFatbin = 0xba55ed50;
  unsigned magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  static CUmod_st ours;
  *module = &ours;
  return magic == kFatbin ? kSuccess : kInvalidValue;
}
EXPORT Error cuModuleGetFunction(Function* function, Module, const char* name) {
  ENTER("cuModuleGetFunction");
  const HostKernel* const kernel = dabke::test::find_host_kernel(name);
  *function = reinterpret_cast<Function>(const_cast<HostKernel*>(kernel));
  return kernel != nullptr ? kSuccess : kNotFound;
}
EXPORT Error cuFuncLoad(Function function) {
  ENTER("cuFuncLoad");
  Machine& all = machine();
  const std::lock_guard lock(all.mutex);
  all.loaded.emplace(function, fake_cuda_current_device());
  return kSuccess;
}
EXPORT Error cuLaunchKernel(Function function, unsigned blocks, unsigned, unsigned, unsigned threads,
                            unsigned, unsigned, unsigned, Stream stream, void** arguments, void**) {
  ENTER("cuLaunchKernel", stream->device);
  const auto& kernel = *reinterpret_cast<const HostKernel*>(function);
  if (blocks == 0) return kInvalidValue;
  {
    const std::lock_guard lock(machine().mutex);
    if (!machine().loaded.contains({function, stream->device})) return kInvalidHandle;
  }
  const auto* const bytes = static_cast<const std::byte*>(arguments[0]);
  // The copy is aligned like the argument.
  auto copy =
      std::make_shared<std::vector<std::max_align_t>>(kernel.argument_bytes / sizeof(std::max_align_t) + 1);
  std::memcpy(copy->data(), bytes, kernel.argument_bytes);
  stream->enqueue([&kernel, copy, blocks, threads, device = stream->device] {
    kernel.run(copy->data(), blocks, threads);
    ++kernels_run[device];
  });
  return kSuccess;
}

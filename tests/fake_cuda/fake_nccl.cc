// The fake NCCL: libnccl.so.2 (fake_cuda.h describes it). Communicators, groups, and the exported functions.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ops/nccl/nccl_library.h"
#include "tests/fake_cuda/fake_collectives.h"
#include "tests/fake_cuda/fake_cuda.h"

using namespace dabke;
using namespace dabke::nccl;
using namespace dabke::test;
using cuda::Stream;

#define EXPORT extern "C" __attribute__((visibility("default")))
namespace {

thread_local std::string last_error;

/// The calls of a group on one stream.
struct Work {
  std::shared_ptr<Shared> comm;
  std::vector<Call> ops;
  Stream stream = nullptr;
  int outcome = 0;

  void run() {
    // NCCL runs nothing after an error.
    if (const Error state = comm->state; state != kSuccess && state != kInProgress) return;
    if (outcome == kHangs || outcome == kHangsForGood) {
      int tries = 0;
      while (outcome == kHangsForGood || !comm->is_aborted) pause(tries);
      return;
    }
    if (outcome <= kEndsWith) return comm->fail(kEndsWith - outcome, "a fault that the plan names");
    if (outcome <= kTakes) std::this_thread::sleep_for(std::chrono::milliseconds(kTakes - outcome));
    std::vector<Transfer> single;
    for (const Call& op : ops) {
      if (op.kind == kSend) {
        single.push_back({op.root, static_cast<const char*>(op.from), nullptr, bytes_of(op)});
      } else if (op.kind == kReceive) {
        single.push_back({op.root, nullptr, static_cast<char*>(op.to), bytes_of(op)});
      } else {
        const std::uint64_t call = ++comm->calls << 16 | static_cast<std::uint64_t>(op.kind) << 8 |
                                   static_cast<std::uint64_t>(op.type) << 4 |
                                   static_cast<std::uint64_t>(op.op);
        if (!run_collective(*comm, op, call)) return;
      }
    }
    // A rank may have no send in a group of sends, so they do not count as a collective of all ranks.
    exchange(*comm, kSend << 8, single);
  }
};

}  // namespace

namespace dabke::nccl {
struct ncclComm {
  std::shared_ptr<Shared> shared;
  // The work of a group that was handed over, but is not on its stream yet.
  std::unique_ptr<Work> pending;
  std::uint64_t stream_had = 0;
  int polls_left = 0;
  std::minstd_rand random;
};
}  // namespace dabke::nccl

namespace {

/// Memory of ncclMemAlloc, and the communicators it is registered with. Never
/// destroyed, because streams may still run.
struct Memory {
  struct Buffer {
    std::size_t bytes;
    std::set<Communicator> known_by;
  };
  std::mutex mutex;
  std::map<std::uintptr_t, Buffer> buffers;
  std::map<int, int> running;  // collectives per device
  NcclFigures figures{};
};
Memory& memory() {
  static Memory& one = *new Memory;
  return one;
}

void note_running(int device, int more) {
  const std::lock_guard lock(memory().mutex);
  memory().running[device] += more;
}

void note_beside(int device) {
  const std::lock_guard lock(memory().mutex);
  if (memory().running[device] != 0) ++memory().figures.beside;
}

bool is_known(Communicator communicator, const void* at, std::size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  const auto from = reinterpret_cast<std::uintptr_t>(at);
  auto found = memory().buffers.upper_bound(from);
  if (found == memory().buffers.begin()) return false;
  --found;
  return from + bytes <= found->first + found->second.bytes && found->second.known_by.contains(communicator);
}

thread_local int group_depth = 0;
thread_local std::map<Communicator, std::unique_ptr<Work>> group;

Error end_group();

Error refuse(Error error, std::string text) {
  last_error = std::move(text);
  return error;
}

void enqueue(std::unique_ptr<Work> work) {
  ++work->comm->running;
  note_running(work->comm->device, 1);
  const Stream stream = work->stream;
  fake_cuda_enqueue(
      stream,
      [](void* argument) {
        const std::unique_ptr<Work> mine(static_cast<Work*>(argument));
        mine->run();
        note_running(mine->comm->device, -1);
        --mine->comm->running;
      },
      work.release());
}

/// Enqueues the work at once, or in some later ncclCommGetAsyncError.
Error hand_over(Communicator communicator, std::unique_ptr<Work> work) {
  if (communicator->pending) return refuse(kInvalidUsage, "a call came while the one before was in progress");
  if (communicator->random() % 2 == 0) {
    enqueue(std::move(work));
    return kSuccess;
  }
  communicator->stream_had = fake_cuda_enqueued(work->stream);
  communicator->pending = std::move(work);
  communicator->polls_left = static_cast<int>(communicator->random() % 4);
  communicator->shared->state = kInProgress;
  return kInProgress;
}

Error add(Call op, Communicator communicator, Stream stream) {
  Shared& comm = *communicator->shared;
  if (fake_cuda_current_device() != comm.device)
    return refuse(kInvalidUsage, op.call + ": the current device is not the communicator's");
  if (fake_cuda_stream_device(stream) != comm.device)
    return refuse(kInvalidUsage, op.call + ": the stream is another device's");
  if (op.type < 0 || op.type > 9) return refuse(kInvalidArgument, op.call + ": there is no such dtype");
  const int outcome = fake_cuda_outcome(op.call.c_str(), comm.device);
  if (outcome > 0) return refuse(outcome, op.call + ": a fault that the plan names");
  if (op.to != nullptr && is_known(communicator, op.to, bytes_of(op))) {
    const std::lock_guard lock(memory().mutex);
    ++memory().figures.runs;
  }
  ++group_depth;
  auto& work = group[communicator];
  if (work == nullptr) work = std::make_unique<Work>(Work{communicator->shared, {}, stream});
  work->ops.push_back(std::move(op));
  if (outcome < 0) work->outcome = outcome;
  return end_group();
}

Error end_group() {
  if (--group_depth != 0) return kSuccess;
  Error worst = kSuccess;
  for (auto& [communicator, work] : std::exchange(group, {})) {
    const Error error = hand_over(communicator, std::move(work));
    if (worst == kSuccess || worst == kInProgress) worst = error != kSuccess ? error : worst;
  }
  return worst;
}

/// The error that the plan has for a call that starts no collective.
Error planned(const char* call) {
  const int outcome = fake_cuda_outcome(call, fake_cuda_current_device());
  return outcome > 0 ? refuse(outcome, std::string(call) + ": a fault that the plan names") : kSuccess;
}
#define AS_PLANNED(call)                                                    \
  do {                                                                      \
    if (const Error error = planned(call); error != kSuccess) return error; \
  } while (false)

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

int own_version() {
  const std::string wanted = variable("FAKE_NCCL_VERSION");
  return wanted.empty() ? 23200 : std::atoi(wanted.c_str());
}

/// Ends the process unless `device` is current. For calls whose result nobody checks, and similar ones.
void must_be_current(const char* call, int device) {
  if (fake_cuda_current_device() == device) return;
  std::fprintf(stderr, "fake_nccl: %s with the context of device %d, and not of %d\n", call,
               fake_cuda_current_device(), device);
  std::abort();
}

void drop(Communicator communicator) {
  if (communicator->shared->joining.joinable()) communicator->shared->joining.join();
  delete communicator;
}

}  // namespace

EXPORT Error ncclGetVersion(int* version) {
  *version = own_version();
  return kSuccess;
}
EXPORT const char* ncclGetErrorString(Error error) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return error >= 0 && error <= kInProgress ? kTexts[error] : "unknown result code";
}
EXPORT const char* ncclGetLastError(Communicator communicator) {
  if (communicator == nullptr) return last_error.c_str();
  const std::lock_guard lock(communicator->shared->mutex);
  if (!communicator->shared->error.empty()) last_error = communicator->shared->error;
  return last_error.c_str();
}
EXPORT Error ncclGetUniqueId(Id* id) {
  if (fake_cuda_current_device() < 0)
    return refuse(kUnhandledCudaError, "ncclGetUniqueId: no context, and NCCL would make one on device 0");
  AS_PLANNED("ncclGetUniqueId");
  std::random_device random;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "/fake-nccl-%08x%08x", random(), random());
  return kSuccess;
}

EXPORT Error ncclCommInitRankConfig(Communicator* communicator, int size, Id id, int rank,
                                    Settings* settings) {
  if (settings->magic != 0xcafebeef || settings->size != sizeof(Settings) || settings->blocking != 0)
    return refuse(kInvalidArgument,
                  "ncclCommInitRankConfig: the double wants a communicator that does not block");
  if (fake_cuda_current_device() < 0)
    return refuse(kUnhandledCudaError, "ncclCommInitRankConfig: no context");
  if (size > kMostRanks)
    return refuse(kInvalidArgument, "ncclCommInitRankConfig: too many ranks for the double");
  const int outcome = fake_cuda_outcome("ncclCommInitRankConfig", fake_cuda_current_device());
  if (outcome > 0) return refuse(outcome, "ncclCommInitRankConfig: a fault that the plan names");
  auto shared = std::make_shared<Shared>();
  shared->rank = rank;
  shared->size = size;
  shared->device = fake_cuda_current_device();
  shared->name = id.internal;
  const int file = ::shm_open(id.internal, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(Segment)) != 0) {
    if (file >= 0) ::close(file);
    return refuse(kSystemError, "ncclCommInitRankConfig: no shared memory");
  }
  void* const memory = ::mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) return refuse(kSystemError, "ncclCommInitRankConfig: no shared memory");
  shared->segment = static_cast<Segment*>(memory);
  shared->segment->device[rank] = shared->device + 1;
  shared->segment->process[rank] = ::getpid();
  shared->segment->host[rank] = std::hash<std::string>()(variable("NCCL_HOSTID"));
  shared->version = own_version();
  shared->may_share_device =
      shared->version >= kMayShareDevices && variable("NCCL_MULTI_RANK_GPU_ENABLE") == "1";
  if (outcome == 0) ++shared->segment->joined;  // otherwise this rank never joins
  if (outcome <= kEndsWith) {
    shared->fail(kEndsWith - outcome, "a fault that the plan names");
  } else {
    shared->joining = std::thread([shared] { join(shared); });
  }
  *communicator = new ncclComm{shared, nullptr, 0, 0, std::minstd_rand(static_cast<unsigned>(rank + 1))};
  return kInProgress;
}

EXPORT Error ncclCommGetAsyncError(Communicator communicator, Error* error) {
  Shared& comm = *communicator->shared;
  must_be_current("ncclCommGetAsyncError", comm.device);
  AS_PLANNED("ncclCommGetAsyncError");
  if (communicator->pending != nullptr && communicator->polls_left-- <= 0) {
    auto work = std::move(communicator->pending);
    if (fake_cuda_enqueued(work->stream) != communicator->stream_had)
      comm.fail(kInvalidUsage, "something was enqueued on the stream of a call that was in progress");
    enqueue(std::move(work));
    Error in_progress = kInProgress;
    comm.state.compare_exchange_strong(in_progress, kSuccess);
  }
  *error = comm.state;
  return kSuccess;
}

EXPORT Error ncclCommFinalize(Communicator communicator) {
  Shared& comm = *communicator->shared;
  must_be_current("ncclCommFinalize", comm.device);
  AS_PLANNED("ncclCommFinalize");
  int tries = 0;
  while (comm.running != 0 && tries < 5000) pause(tries);
  if (comm.running != 0) return refuse(kInternalError, "ncclCommFinalize: a collective has not ended");
  return kSuccess;
}
EXPORT Error ncclMemAlloc(void** at, std::size_t bytes) {
  const int device = fake_cuda_current_device();
  if (device < 0) return refuse(kUnhandledCudaError, "ncclMemAlloc: no context");
  AS_PLANNED("ncclMemAlloc");
  note_beside(device);
  *at = fake_cuda_allocate(device, bytes);
  if (*at == nullptr) return refuse(kUnhandledCudaError, "ncclMemAlloc: out of memory");
  const std::lock_guard lock(memory().mutex);
  memory().buffers[reinterpret_cast<std::uintptr_t>(*at)] = {bytes, {}};
  return kSuccess;
}
EXPORT Error ncclMemFree(void* at) {
  {
    const std::lock_guard lock(memory().mutex);
    const auto found = memory().buffers.find(reinterpret_cast<std::uintptr_t>(at));
    if (fake_cuda_current_device() < 0 || found == memory().buffers.end() ||
        !found->second.known_by.empty()) {
      std::fprintf(
          stderr,
          "fake_nccl: ncclMemFree without a context, or of memory that is none of its own or registered\n");
      std::abort();
    }
    memory().buffers.erase(found);
  }
  return fake_cuda_free(reinterpret_cast<cuda::Pointer>(at));
}
EXPORT Error ncclCommRegister(Communicator communicator, void* at, std::size_t bytes, void** known_as) {
  must_be_current("ncclCommRegister", communicator->shared->device);
  AS_PLANNED("ncclCommRegister");
  note_beside(communicator->shared->device);
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().buffers.find(reinterpret_cast<std::uintptr_t>(at));
  if (found == memory().buffers.end() || found->second.bytes < bytes)
    return refuse(kInvalidArgument, "ncclCommRegister: no memory of ncclMemAlloc");
  found->second.known_by.insert(communicator);
  *known_as = at;
  return kSuccess;
}
EXPORT Error ncclCommDeregister(Communicator communicator, void* known_as) {
  must_be_current("ncclCommDeregister", communicator->shared->device);
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().buffers.find(reinterpret_cast<std::uintptr_t>(known_as));
  if (found == memory().buffers.end() || found->second.known_by.erase(communicator) == 0)
    return refuse(kInvalidArgument, "ncclCommDeregister: no buffer of this communicator");
  return kSuccess;
}
EXPORT NcclFigures fake_nccl_figures() {
  const std::lock_guard lock(memory().mutex);
  NcclFigures figures = memory().figures;
  figures.buffers = memory().buffers.size();
  figures.known = 0;
  for (const auto& [at, buffer] : memory().buffers) figures.known += buffer.known_by.size();
  return figures;
}

EXPORT Error ncclCommDestroy(Communicator communicator) {
  must_be_current("ncclCommDestroy", communicator->shared->device);
  {
    const std::lock_guard lock(memory().mutex);
    for (const auto& [at, buffer] : memory().buffers) {
      if (!buffer.known_by.contains(communicator)) continue;
      std::fprintf(stderr, "fake_nccl: ncclCommDestroy of a communicator with registered memory\n");
      std::abort();
    }
  }
  drop(communicator);
  return kSuccess;
}
EXPORT Error ncclCommAbort(Communicator communicator) {
  must_be_current("ncclCommAbort", communicator->shared->device);
  communicator->shared->is_aborted = true;
  communicator->shared->segment->left[communicator->shared->rank] = 1;
  ::shm_unlink(communicator->shared->name.c_str());
  {
    const std::lock_guard lock(memory().mutex);
    for (auto& [at, buffer] : memory().buffers) buffer.known_by.erase(communicator);
  }
  drop(communicator);
  return kSuccess;
}

EXPORT Error ncclGroupStart() {
  AS_PLANNED("ncclGroupStart");
  ++group_depth;
  return kSuccess;
}
EXPORT Error ncclGroupEnd() {
  if (const Error error = planned("ncclGroupEnd"); error != kSuccess) {
    group_depth = 0;
    group.clear();
    return error;
  }
  return end_group();
}

EXPORT Error ncclAllReduce(const void* from, void* to, std::size_t count, Type type, nccl::Op op,
                           Communicator comm, Stream stream) {
  return add({"ncclAllReduce", kAllReduce, from, to, count, type, op, -1}, comm, stream);
}
EXPORT Error ncclReduce(const void* from, void* to, std::size_t count, Type type, nccl::Op op, int root,
                        Communicator comm, Stream stream) {
  return add({"ncclReduce", kReduce, from, to, count, type, op, root}, comm, stream);
}
EXPORT Error ncclBroadcast(const void* from, void* to, std::size_t count, Type type, int root,
                           Communicator comm, Stream stream) {
  return add({"ncclBroadcast", kBroadcast, from, to, count, type, kSum, root}, comm, stream);
}
EXPORT Error ncclAllGather(const void* from, void* to, std::size_t count, Type type, Communicator comm,
                           Stream stream) {
  return add({"ncclAllGather", kAllGather, from, to, count, type, kSum, -1}, comm, stream);
}
EXPORT Error ncclReduceScatter(const void* from, void* to, std::size_t count, Type type, nccl::Op op,
                               Communicator comm, Stream stream) {
  return add({"ncclReduceScatter", kReduceScatter, from, to, count, type, op, -1}, comm, stream);
}
EXPORT Error ncclSend(const void* from, std::size_t count, Type type, int peer, Communicator comm,
                      Stream stream) {
  return add({"ncclSend", kSend, from, nullptr, count, type, kSum, peer}, comm, stream);
}
EXPORT Error ncclRecv(void* to, std::size_t count, Type type, int peer, Communicator comm, Stream stream) {
  return add({"ncclRecv", kReceive, nullptr, to, count, type, kSum, peer}, comm, stream);
}

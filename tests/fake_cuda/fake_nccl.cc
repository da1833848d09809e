// The double of NCCL: libnccl.so.2 (fake_cuda.h says what it is).
//
// The ranks of a communicator share a segment with a mailbox for each pair of them, through which a collective goes
// in pieces. All calls of one kind say what they are with each piece, so ranks that are out of step are told so.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ops/nccl/nccl_library.h"
#include "runtime/base/half.h"
#include "tests/fake_cuda/fake_cuda.h"

using namespace dabke;
using namespace dabke::nccl;
using cuda::Stream;
using testing::kEndsWith;
using testing::kHangs;
using testing::kHangsForGood;

#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT dabke::nccl::Error ncclGroupEnd();

namespace {

constexpr int kMostRanks = 16;
constexpr std::size_t kPieceBytes = 32768;

struct Mailbox {
  std::atomic<std::uint64_t> written;
  std::atomic<std::uint64_t> read;
  std::uint64_t call;   // what the writer believes to run
  std::uint64_t bytes;  // of this piece
  char data[kPieceBytes];
};
struct Segment {
  std::atomic<std::uint32_t> joined;
  std::atomic<std::int32_t> device[kMostRanks];  // +1
  std::atomic<std::int32_t> process[kMostRanks];
  std::atomic<std::uint32_t> left[kMostRanks];
  Mailbox mailboxes[kMostRanks][kMostRanks];  // from, to
};

thread_local std::string last_error;

struct Shared {
  ~Shared() {
    if (segment != nullptr) ::munmap(segment, sizeof(Segment));
  }
  int rank = 0;
  int size = 0;
  int device = 0;
  std::string name;
  Segment* segment = nullptr;
  std::atomic<Error> state{kInProgress};
  std::atomic<bool> is_aborted{false};
  std::atomic<int> running{0};  // on the stream
  std::uint64_t calls = 0;
  std::mutex mutex;
  std::string error;
  std::thread joining;

  void fail(Error code, const std::string& text) {
    const std::lock_guard lock(mutex);
    if (error.empty()) error = text;
    state = code;
  }
};

struct Call {
  std::string call;
  int kind;
  const void* from;
  void* to;
  std::size_t count;
  Type type;
  nccl::Op op;
  int root;  // or the peer
};

constexpr std::size_t kWidths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
std::size_t bytes_of(const Call& op) { return op.count * kWidths[op.type]; }

struct Transfer {
  int peer;
  const char* send;  // null: it receives
  char* receive;
  std::size_t left;
};

/// What ends a wait: an abort, or a rank that is gone where that is noticed.
bool is_over(Shared& comm) {
  if (comm.is_aborted) return true;
  static const bool notices = std::getenv("FAKE_NCCL_NOTICES") != nullptr;
  for (int rank = 0; notices && rank < comm.size; ++rank) {
    const bool is_dead = ::kill(comm.segment->process[rank], 0) != 0 && errno == ESRCH;
    if (!is_dead && comm.segment->left[rank] == 0) continue;
    comm.fail(kRemoteError, "NET/double: rank " + std::to_string(rank) + " has closed its connection");
    return true;
  }
  return comm.state != kSuccess && comm.state != kInProgress;
}

void pause(int& tries) {
  if (++tries < 32) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(tries < 200 ? 20 : 200));
}

/// All of them at once, those with one peer in their order.
bool exchange(Shared& comm, std::uint64_t call, const std::vector<Transfer>& transfers) {
  std::map<std::pair<int, bool>, std::deque<Transfer>> queues;
  for (const Transfer& one : transfers) {
    if (one.left != 0) queues[{one.peer, one.send != nullptr}].push_back(one);
  }
  int tries = 0;
  while (!queues.empty()) {
    bool moved = false;
    for (auto& [key, queue] : queues) {
      if (queue.empty()) continue;
      Transfer& one = queue.front();
      Mailbox& box = one.send != nullptr ? comm.segment->mailboxes[comm.rank][one.peer]
                                         : comm.segment->mailboxes[one.peer][comm.rank];
      const std::uint64_t written = box.written.load();
      const std::uint64_t read = box.read.load();
      std::size_t bytes = std::min(one.left, kPieceBytes);
      if (one.send != nullptr) {
        if (written != read) continue;
        box.call = call;
        box.bytes = bytes;
        std::memcpy(box.data, one.send, bytes);
        box.written = written + 1;
        one.send += bytes;
      } else {
        if (written == read) continue;
        if (box.call != call || box.bytes != bytes) {
          comm.fail(kInvalidUsage, "the ranks are out of step: rank " + std::to_string(one.peer) +
                                       " runs another collective");
          return false;
        }
        std::memcpy(one.receive, box.data, bytes);
        box.read = read + 1;
        one.receive += bytes;
      }
      one.left -= bytes;
      if (one.left == 0) queue.pop_front();
      moved = true;
    }
    std::erase_if(queues, [](const auto& row) { return row.second.empty(); });
    if (moved) {
      tries = 0;
    } else if (is_over(comm)) {
      return false;
    } else {
      pause(tries);
    }
  }
  return true;
}

template <class T>
T reduced(nccl::Op op, T a, T b) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    // Rounded at each step, as a ring of GPUs does.
    return T(reduced<float>(op, static_cast<float>(a), static_cast<float>(b)));
  } else if constexpr (std::is_floating_point_v<T>) {
    if (op == kSum) return a + b;
    if (op == kProd) return a * b;
    return op == kMax ? std::fmax(a, b) : std::fmin(a, b);
  } else {
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    if (op == kSum) return static_cast<T>(x + y);
    if (op == kProd) return static_cast<T>(x * y);
    return op == kMax ? std::max(a, b) : std::min(a, b);
  }
}

template <class T>
void reduce_as(nccl::Op op, char* into, const char* other, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    T a;
    T b;
    std::memcpy(&a, into + i * sizeof(T), sizeof(T));
    std::memcpy(&b, other + i * sizeof(T), sizeof(T));
    a = reduced(op, a, b);
    std::memcpy(into + i * sizeof(T), &a, sizeof(T));
  }
}

void reduce(Type type, nccl::Op op, char* into, const char* other, std::size_t count) {
  switch (type) {
    case 0: return reduce_as<std::int8_t>(op, into, other, count);
    case 1: return reduce_as<std::uint8_t>(op, into, other, count);
    case 2: return reduce_as<std::int32_t>(op, into, other, count);
    case 3: return reduce_as<std::uint32_t>(op, into, other, count);
    case 4: return reduce_as<std::int64_t>(op, into, other, count);
    case 5: return reduce_as<std::uint64_t>(op, into, other, count);
    case 6: return reduce_as<f16>(op, into, other, count);
    case 7: return reduce_as<float>(op, into, other, count);
    case 8: return reduce_as<double>(op, into, other, count);
    case 9: return reduce_as<bf16>(op, into, other, count);
  }
}

enum Kind { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kSend, kReceive };

/// Everybody sends `bytes` from blocks of `stride` to each of `to`, and gets as much from each of `from`.
bool run_collective(Shared& comm, const Call& op, std::uint64_t call) {
  const auto* const from = static_cast<const char*>(op.from);
  auto* const to = static_cast<char*>(op.to);
  const std::size_t bytes = bytes_of(op);
  const bool is_root = op.root == comm.rank;
  std::vector<Transfer> transfers;
  std::vector<std::vector<char>> brought(static_cast<std::size_t>(comm.size));
  const bool reduces = op.kind == kAllReduce || op.kind == kReduceScatter || op.kind == kReduce;
  const std::size_t own = static_cast<std::size_t>(comm.rank) * bytes;
  for (int peer = 0; peer < comm.size; ++peer) {
    const std::size_t block = static_cast<std::size_t>(peer) * bytes;
    auto& theirs = brought[static_cast<std::size_t>(peer)];
    const char* const mine = op.kind == kReduceScatter ? from + block : from;
    if (peer == comm.rank) {
      if (reduces) theirs.assign(mine, mine + bytes);
      continue;
    }
    const bool sends = op.kind == kBroadcast ? is_root : op.kind == kReduce ? op.root == peer : true;
    const bool receives = op.kind == kBroadcast ? op.root == peer : op.kind == kReduce ? is_root : true;
    if (sends) transfers.push_back({peer, mine, nullptr, bytes});
    if (!receives) continue;
    if (reduces) theirs.resize(bytes);
    transfers.push_back({peer, nullptr,
                         reduces                 ? theirs.data()
                         : op.kind == kAllGather ? to + block
                                                 : to,
                         bytes});
  }
  if (!exchange(comm, call, transfers)) return false;
  if (reduces && (op.kind != kReduce || is_root)) {
    for (int rank = 1; rank < comm.size; ++rank)
      reduce(op.type, op.op, brought[0].data(), brought[static_cast<std::size_t>(rank)].data(), op.count);
    std::copy(brought[0].begin(), brought[0].end(), to);
  }
  if (op.kind == kAllGather && to + own != from) std::memcpy(to + own, from, bytes);
  if (op.kind == kBroadcast && is_root && to != from) std::memcpy(to, from, bytes);
  return true;
}

/// What a group has brought to one stream.
struct Work {
  std::shared_ptr<Shared> comm;
  std::vector<Call> ops;
  Stream stream = nullptr;
  int outcome = 0;

  void run() {
    if (outcome == kHangs || outcome == kHangsForGood) {
      int tries = 0;
      while (outcome == kHangsForGood || !comm->is_aborted) pause(tries);
      return;
    }
    if (outcome <= kEndsWith) return comm->fail(kEndsWith - outcome, "a fault that the plan names");
    std::vector<Transfer> single;
    const std::uint64_t first = comm->calls;
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
    if (comm->calls == first) ++comm->calls;
    exchange(*comm, comm->calls << 16 | kSend << 8, single);
  }
};

}  // namespace

namespace dabke::nccl {
struct ncclComm {
  std::shared_ptr<Shared> shared;
  // Of a group that was handed over, and is not on its stream yet.
  std::unique_ptr<Work> pending;
  std::uint64_t stream_had = 0;
  int polls_left = 0;
  std::minstd_rand random;
};
}  // namespace dabke::nccl

namespace {

thread_local int group_depth = 0;
thread_local std::map<Communicator, std::unique_ptr<Work>> group;

Error refuse(Error error, std::string text) {
  last_error = std::move(text);
  return error;
}

void enqueue(std::unique_ptr<Work> work) {
  ++work->comm->running;
  const Stream stream = work->stream;
  fake_cuda_enqueue(
      stream,
      [](void* argument) {
        const std::unique_ptr<Work> mine(static_cast<Work*>(argument));
        mine->run();
        --mine->comm->running;
      },
      work.release());
}

/// Handed over at once, or at some later ncclCommGetAsyncError.
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
  ++group_depth;
  auto& work = group[communicator];
  if (work == nullptr) work = std::make_unique<Work>(Work{communicator->shared, {}, stream});
  work->ops.push_back(std::move(op));
  if (outcome < 0) work->outcome = outcome;
  return ncclGroupEnd();
}

/// Waits until all ranks have come.
void join(const std::shared_ptr<Shared>& comm) {
  int tries = 0;
  Segment& all = *comm->segment;
  while (all.joined.load() != static_cast<std::uint32_t>(comm->size)) {
    if (comm->is_aborted) return;
    pause(tries);
  }
  ::shm_unlink(comm->name.c_str());
  fake_cuda_delay();
  for (int a = 0; a < comm->size; ++a) {
    for (int b = 0; b < a; ++b) {
      if (all.device[a] != all.device[b]) continue;
      return comm->fail(kInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(a) + " and rank " +
                                           std::to_string(b) + " both on CUDA device " +
                                           std::to_string(all.device[a] - 1));
    }
  }
  comm->state = kSuccess;
}

void drop(Communicator communicator) {
  if (communicator->shared->joining.joinable()) communicator->shared->joining.join();
  delete communicator;
}

}  // namespace

EXPORT Error ncclGetVersion(int* version) {
  const char* const wanted = std::getenv("FAKE_NCCL_VERSION");
  *version = wanted != nullptr ? std::atoi(wanted) : 23200;
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
  const int outcome = fake_cuda_outcome("ncclGetUniqueId", fake_cuda_current_device());
  if (outcome > 0) return refuse(outcome, "ncclGetUniqueId: a fault that the plan names");
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
  if (outcome == 0) ++shared->segment->joined;  // else it never comes so far
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
  int tries = 0;
  while (comm.running != 0 && tries < 5000) pause(tries);
  if (comm.running != 0) return refuse(kInternalError, "ncclCommFinalize: a collective has not ended");
  return kSuccess;
}
EXPORT Error ncclCommDestroy(Communicator communicator) {
  drop(communicator);
  return kSuccess;
}
EXPORT Error ncclCommAbort(Communicator communicator) {
  communicator->shared->is_aborted = true;
  communicator->shared->segment->left[communicator->shared->rank] = 1;
  ::shm_unlink(communicator->shared->name.c_str());
  drop(communicator);
  return kSuccess;
}

EXPORT Error ncclGroupStart() {
  ++group_depth;
  return kSuccess;
}
EXPORT Error ncclGroupEnd() {
  if (--group_depth != 0) return kSuccess;
  Error worst = kSuccess;
  for (auto& [communicator, work] : std::exchange(group, {})) {
    const Error error = hand_over(communicator, std::move(work));
    if (worst == kSuccess || worst == kInProgress) worst = error != kSuccess ? error : worst;
  }
  return worst;
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

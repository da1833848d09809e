#include "ops/nccl/nccl_communicator.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "ops/nccl/nccl_dtype.h"
#include "runtime/base/bytes.h"
#include "runtime/base/threads/exceptions.h"
#include "runtime/base/threads/thread.h"

namespace dabke::ops {

/// The state that the thread of an abort keeps alive.
class NcclHandle {
 public:
  static constexpr Duration kLeaveWithin = std::chrono::seconds(2);

  NcclHandle(const nccl::Library& library, std::shared_ptr<CudaDevice> device)
      : library_(library), device_(std::move(device)) {}

  /// Memory outlives its communicator, because NCCL releases it with the communicator. Memory that may still
  /// be used is not freed: by a device that does not finish its work, or by a communicator that could not be
  /// aborted.
  ~NcclHandle() {
    if (communicator_ != nullptr || device_->is_stuck()) return;
    const CudaScope current = device_->scope();
    for (const auto& [memory, known_as] : memory_) (void)library_.free(memory);
  }

  const nccl::Library& library() const { return library_; }

  Result<std::byte*> take_memory(std::size_t bytes) {
    if (library_.allocate == nullptr || library_.free == nullptr || library_.add_buffer == nullptr ||
        library_.remove_buffer == nullptr)
      return Status(Code::unsupported, library_.text + " has no ncclCommRegister: it is older than 2.19");
    void* memory = nullptr;
    DABKE_RETURN_IF_ERROR(use([&](nccl::Communicator communicator) -> Status {
      DABKE_RETURN_IF_ERROR(nccl::check(library_, "ncclMemAlloc", library_.allocate(&memory, bytes)));
      void* known_as = nullptr;
      Status added = nccl::check(library_, "ncclCommRegister",
                                 library_.add_buffer(communicator, memory, bytes, &known_as), communicator);
      if (added.is_ok() && known_as == nullptr)
        added = {Code::unsupported, "ncclCommRegister does nothing here (NCCL_LOCAL_REGISTER=0)"};
      if (added.is_ok()) {
        memory_[memory] = known_as;
      } else {
        (void)library_.free(memory);
      }
      return added;
    }));
    return static_cast<std::byte*>(memory);
  }

  void give_back(void* memory) {
    (void)use([&](nccl::Communicator communicator) -> Status {
      const auto known = memory_.find(memory);
      (void)library_.remove_buffer(communicator, known->second);
      memory_.erase(known);
      return nccl::check(library_, "ncclMemFree", library_.free(memory));
    });
  }

  /// Calls NCCL, unless the communicator is being aborted.
  template <class Use>
  Status use(Use call) {
    const Turn turn(*this);
    if (is_aborted_) return {Code::transport, "the communicator was aborted"};
    const CudaScope current = device_->scope();
    return call(communicator_);
  }

  /// True once NCCL has done its work. Returns an error if something has failed meanwhile.
  Result<bool> is_ready(std::string_view call_name) {
    bool is_ready = false;
    DABKE_RETURN_IF_ERROR(use([&](nccl::Communicator communicator) -> Status {
      nccl::Error state = nccl::kInternalError;
      const nccl::Error asked = library_.get_async_error(communicator, &state);
      is_ready = state == nccl::kSuccess;
      return nccl::check(library_, call_name, asked != nccl::kSuccess ? asked : state, communicator);
    }));
    return is_ready;
  }

  void abort(const std::shared_ptr<NcclHandle>& self) {
    if (is_aborted_.exchange(true)) return;
    // An abort may wait for the device, which waits for a rank that is gone. So each abort has a thread of
    // its own, which is not joined.
    attempt([&] {
      const AllSignalsBlocked blocked;
      std::thread([self] {
        pthread_setname_np(pthread_self(), "dabke-abort");
        {
          std::unique_lock lock(self->mutex_);
          const auto is_left = [&] { return !self->is_in_use_; };
          if (!self->left_.wait_for(lock, kLeaveWithin, is_left) || self->communicator_ == nullptr) return;
        }
        const CudaScope current = self->device_->scope();
        (void)self->library_.abort(std::exchange(self->communicator_, nullptr));
      }).detach();
    });
  }

  /// Called when all ranks have finished all that they have started.
  void destroy(const std::shared_ptr<NcclHandle>& self) {
    const TimePoint until = Clock::now() + std::chrono::seconds(5);
    const Status reported = use([&](nccl::Communicator communicator) {
      for (const auto& [memory, known_as] : memory_) (void)library_.remove_buffer(communicator, known_as);
      return nccl::check(library_, "ncclCommFinalize", library_.finalize(communicator), communicator);
    });
    // Takes another turn each time, because an abort does not wait for this.
    Result<bool> is_ended = reported.is_ok() ? is_ready("ncclCommFinalize") : Result<bool>(reported);
    while (is_ended && !*is_ended && Clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      is_ended = is_ready("ncclCommFinalize");
    }
    if (is_ended && *is_ended) {
      (void)use([&](nccl::Communicator communicator) -> Status {
        if (is_aborted_.exchange(true)) return {};
        communicator_ = nullptr;
        return nccl::check(library_, "ncclCommDestroy", library_.destroy(communicator));
      });
    }
    abort(self);  // does nothing if the communicator was destroyed
  }

  Status make(const nccl::Id& id, int rank, int size) {
    return use([&](nccl::Communicator) {
      nccl::Settings settings;
      settings.blocking = 0;
      return nccl::check(library_, "ncclCommInitRankConfig",
                         library_.init_rank(&communicator_, size, id, rank, &settings));
    });
  }

 private:
  /// The right to call NCCL, held during a call. One at a time.
  struct Turn {
    explicit Turn(NcclHandle& of) : handle(of) {
      std::unique_lock lock(handle.mutex_);
      handle.left_.wait(lock, [this] { return !handle.is_in_use_; });
      handle.is_in_use_ = true;
    }
    ~Turn() {
      {
        const std::lock_guard lock(handle.mutex_);
        handle.is_in_use_ = false;
      }
      handle.left_.notify_all();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    NcclHandle& handle;
  };

  const nccl::Library& library_;
  const std::shared_ptr<CudaDevice> device_;
  std::mutex mutex_;
  std::condition_variable left_;
  bool is_in_use_ = false;
  std::atomic<bool> is_aborted_{false};
  nccl::Communicator communicator_ = nullptr;
  std::map<void*, void*> memory_;  // with NCCL's handle of it; only for the holder of the turn
};

Result<std::unique_ptr<NcclCommunicator>> NcclRanks::make(const nccl::Library& library,
                                                          std::shared_ptr<CudaDevice> device,
                                                          const nccl::Id& id, int rank, int size,
                                                          TimePoint deadline,
                                                          const std::function<Status()>& interrupted) {
  const auto handle = std::make_shared<NcclHandle>(library, std::move(device));
  Status status = handle->make(id, rank, size);
  Duration pause = std::chrono::microseconds(50);
  while (status.is_ok()) {
    const auto is_ready = handle->is_ready("ncclCommInitRankConfig");
    if (is_ready && *is_ready) return std::unique_ptr<NcclCommunicator>(new NcclRanks(handle, rank));
    if (!is_ready) {
      status = is_ready.status();
    } else if (status = interrupted(); status.is_ok() && Clock::now() >= deadline) {
      status = {Code::timeout,
                "not all ranks called ncclCommInitRankConfig within DABKE_START_TIMEOUT_SECONDS; set "
                "NCCL_DEBUG=INFO to see how far it came"};
    }
    if (status.is_ok()) std::this_thread::sleep_for(pause);
    pause = std::min<Duration>(pause * 2, std::chrono::milliseconds(5));
  }
  handle->abort(handle);
  return status;
}

NcclRanks::~NcclRanks() { handle_->destroy(handle_); }

void NcclRanks::abort() { handle_->abort(handle_); }

Result<std::byte*> NcclRanks::take_memory(std::size_t bytes) { return handle_->take_memory(bytes); }

void NcclRanks::give_back(std::byte* memory) { handle_->give_back(memory); }

Result<bool> NcclRanks::poll() { return handle_->is_ready("ncclCommGetAsyncError"); }

Status NcclRanks::start(std::span<const NcclCall> calls, DeviceStream& stream) {
  const cuda::Stream on = static_cast<CudaStream&>(stream).get();
  return handle_->use([&](nccl::Communicator communicator) -> Status {
    const nccl::Library& library = handle_->library();
    DABKE_RETURN_IF_ERROR(nccl::check(library, "ncclGroupStart", library.group_start(), communicator));
    Status status;
    for (const NcclCall& call : calls) {
      if (status.is_ok()) status = enqueue(call, communicator, on);
    }
    const Status ended = nccl::check(library, "ncclGroupEnd", library.group_end(), communicator);
    return status.is_ok() ? ended : status;
  });
}

namespace {

/// Enqueues one call. NCCL has no collective for uneven blocks, so they are a group of broadcasts, reductions
/// or sends.
struct NcclEnqueuer {
  const nccl::Library& nccl;
  const NcclCall& call;
  nccl::Communicator all;
  cuda::Stream stream;
  std::size_t own;  // this rank
  std::size_t width = size_of(call.dtype);

  Status ok(const char* name, nccl::Error error) const { return nccl::check(nccl, name, error, all); }
  static bool is_even(std::span<const std::size_t> counts) {
    return std::ranges::all_of(counts, [&](std::size_t count) { return count == counts.front(); });
  }

  Status allreduce() const {
    return ok("ncclAllReduce", nccl.all_reduce(call.data, call.data, call.elements, *nccl_dtype(call.dtype),
                                               *nccl_op(call.dtype, call.op), all, stream));
  }

  Status broadcast() const {
    return ok("ncclBroadcast", nccl.broadcast(call.data, call.data, call.elements * width, kNcclBytes,
                                              call.root, all, stream));
  }

  Status allgather() const {
    if (is_even(call.receive_counts)) {
      const std::size_t bytes = call.receive_counts.front() * width;
      return ok("ncclAllGather",
                nccl.all_gather(call.data + own * bytes, call.data, bytes, kNcclBytes, all, stream));
    }
    std::byte* block = call.data;
    for (std::size_t rank = 0; rank < call.receive_counts.size(); ++rank) {
      const std::size_t bytes = call.receive_counts[rank] * width;
      if (bytes != 0) {
        DABKE_RETURN_IF_ERROR(ok("ncclBroadcast", nccl.broadcast(block, block, bytes, kNcclBytes,
                                                                 static_cast<int>(rank), all, stream)));
      }
      block += bytes;
    }
    return {};
  }

  Status reducescatter() const {
    const nccl::Type type = *nccl_dtype(call.dtype);
    const nccl::Op op = *nccl_op(call.dtype, call.op);
    if (is_even(call.send_counts)) {
      return ok("ncclReduceScatter",
                nccl.reduce_scatter(call.send, call.data, call.send_counts.front(), type, op, all, stream));
    }
    const std::byte* block = call.send;
    for (std::size_t rank = 0; rank < call.send_counts.size(); ++rank) {
      const std::size_t count = call.send_counts[rank];
      if (count != 0) {
        DABKE_RETURN_IF_ERROR(ok("ncclReduce", nccl.reduce(block, rank == own ? call.data : nullptr, count,
                                                           type, op, static_cast<int>(rank), all, stream)));
      }
      block += count * width;
    }
    return {};
  }

  Status alltoall() const {
    const std::byte* from = call.send;
    std::byte* to = call.data;
    for (std::size_t rank = 0; rank < call.send_counts.size(); ++rank) {
      const std::size_t sent = call.send_counts[rank] * width;
      const std::size_t received = call.receive_counts[rank] * width;
      const int peer = static_cast<int>(rank);
      if (sent != 0)
        DABKE_RETURN_IF_ERROR(ok("ncclSend", nccl.send(from, sent, kNcclBytes, peer, all, stream)));
      if (received != 0)
        DABKE_RETURN_IF_ERROR(ok("ncclRecv", nccl.receive(to, received, kNcclBytes, peer, all, stream)));
      from += sent;
      to += received;
    }
    return {};
  }
};

}  // namespace

Status NcclRanks::enqueue(const NcclCall& call, nccl::Communicator all, cuda::Stream stream) const {
  if (reduces(call.kind) && (!nccl_dtype(call.dtype) || !nccl_op(call.dtype, call.op))) {
    return {Code::unsupported,
            fmt::format("NCCL has no {} of {}; copy the tensor to the host, where every dtype is reduced",
                        name_of(call.op), name_of(call.dtype))};
  }
  const NcclEnqueuer enqueuer{handle_->library(), call, all, stream, to_size(rank_)};
  switch (call.kind) {
    case CollectiveKind::allreduce: return enqueuer.allreduce();
    case CollectiveKind::broadcast: return enqueuer.broadcast();
    case CollectiveKind::allgather: return enqueuer.allgather();
    case CollectiveKind::reducescatter: return enqueuer.reducescatter();
    case CollectiveKind::alltoall: return enqueuer.alltoall();
    default: return {Code::unsupported, fmt::format("NCCL has no {}", name_of(call.kind))};
  }
}

}  // namespace dabke::ops

// One call of a collective: the user's input and its result. A handle refers to one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/backend/device.h"
#include "runtime/base/clock.h"
#include "runtime/base/threads/block_pool.h"
#include "runtime/base/threads/wait_check.h"
#include "runtime/call/request.h"
#include "runtime/links/shm/shared_heap.h"

namespace dabke {

/// Counted by intrusive references: the user holds one, and the runtime holds another until the operation has
/// completed. Kept small: a step may have thousands, and three threads read each of them.
class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  /// Members that few calls need.
  struct Extras final : Pooled<Extras> {
    // ---- set before submit, constant after
    std::vector<std::int64_t> splits;  // alltoall: rows to each rank of the set; empty for equal parts
    std::string group;                 // ordered with others of this name and `group_size`; empty if alone
    std::uint32_t group_size = 0;
    /// allgather, alltoall: true if the caller gives the outputs, with their shapes. Other collectives see
    /// that from the data.
    bool gives_outputs = false;
    /// Returns memory for output `index`, whose dtype and shape are set; null if there is none.
    std::function<void*(std::size_t index, const TensorView& output)> allocate;
    /// For inputs on a device. They are ready once all work that was on this stream at submit has ended and
    /// this event is reached. Null means that they are ready already.
    ProgramStream stream;
    ProgramEvent ready_event;
    /// join: the device with which this rank takes part in later collectives.
    std::optional<Device> join_device;
    std::function<void(Operation&)> callback;

    /// The points of the stream and the event above. submit() notes them. The lane drops them once its stream
    /// waits for them.
    std::vector<std::shared_ptr<DeviceEvent>> ready;

    // ---- results; read them after is_done()
    std::vector<std::int64_t> received_splits;
    std::string message;

    Operation* next_callback = nullptr;  // the next in CallbackThread's queue

   private:
    friend class Operation;
    std::vector<DeviceBuffer> owned_;
  };
  const Extras& extras() const;
  /// Returns the extras, and makes them if there are none. The caller may change them before submit, and the
  /// runtime after it.
  Extras& make_extras();

  // ---- set before submit, constant after
  /// The process set, kind, op and so on; tensors and ranks. The negotiation keeps it.
  std::shared_ptr<Request> request = std::allocate_shared<Request>(PoolAllocator<Request>());
  OneOrMany<TensorView> inputs;
  /// The places of the results. If data is null: memory from `allocate`, or from the runtime.
  OneOrMany<TensorView> outputs;
  std::optional<Compression> compression;  // the caller's choice; nothing for the configured one

  // ---- results; read them after is_done()
  std::int64_t value = 0;     // join: last rank; add_process_set: the id; send_recv: the sender
  std::uint64_t changes = 0;  // of the job's hosts, announced before it; only of operations of the world

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  bool is_done() const { return state_.load(std::memory_order_acquire) == State::done; }
  bool is_awaited() const { return state_.load(std::memory_order_relaxed) == State::awaited; }
  /// True if the operation completed before `deadline`, and before `check`, if there is one, stopped the
  /// wait. Sleeps; several threads may wait.
  bool wait_until(TimePoint deadline, WaitCheck* check = nullptr) {
    return wait_for(Until::done, deadline, check);
  }
  /// Like wait_until(), but also returns when all work of the operation has been given to its device; see
  /// end_on_device().
  bool wait_until_enqueued(TimePoint deadline, WaitCheck* check = nullptr) {
    return wait_for(Until::enqueued, deadline, check);
  }
  /// The point of the device after which the outputs are ready, once all work that leads to it is enqueued.
  /// Null before that, after completion, and for an operation on the host.
  std::shared_ptr<DeviceEvent> end_on_device() const;
  /// ok, an error, or in_progress.
  Code code() const { return is_done() ? code_ : Code::in_progress; }
  /// Like code(), with the text.
  Status status() const;
  const std::string& message() const { return extras().message; }

  /// Gets memory for output `index`, of the size that its view has: from the user's allocator, or else from
  /// `memory`.
  Status provide_output(std::size_t index, const std::shared_ptr<DeviceMemory>& memory);
  /// Keeps registered memory of inputs and outputs from being freed until the operation has completed.
  std::vector<shm::SharedHeap::Use> uses;
  /// Called by the lane of the device, once for each tensor. The tensor's work has ended when `end` is
  /// reached. The last `end` is behind all others.
  void note_enqueued(const std::shared_ptr<DeviceEvent>& end);
  /// Called exactly once. Wakes the waiters; the caller runs the callback. The message is lost if there is no
  /// memory for it, and the code stays.
  void complete(const Status& status) noexcept;

  /// Marks the operation as submitted without waking the coordinator's thread: the thread that waits for it
  /// negotiates. Called before submit.
  void leave_to_waiter() { is_left_to_waiter_ = true; }
  bool is_left_to_waiter() const { return is_left_to_waiter_.load(std::memory_order_relaxed); }
  /// Returns true if the operation is still left to its waiter. The caller sees to it from then on.
  bool take_from_waiter() const { return is_left_to_waiter() && is_left_to_waiter_.exchange(false); }

  TimePoint submitted_at{};
  TimePoint ordered_at{};

 private:
  enum class State : std::uint8_t { pending, awaited, done };

  std::atomic<int> references_{1};
  std::atomic<State> state_{State::pending};
  mutable std::atomic<bool> is_left_to_waiter_{false};
  enum class Until { enqueued, done };
  bool wait_for(Until until, TimePoint deadline, WaitCheck* check);
  bool sleep_until(Until until, TimePoint deadline);

  Code code_ = Code::ok;
  std::unique_ptr<Extras> extras_;           // null if none of them is set
  std::size_t tensors_enqueued_ = 0;         // used by the lane only
  std::shared_ptr<DeviceEvent> device_end_;  // guarded by the waiting room
};

/// A counted reference to an Operation.
class OperationRef {
 public:
  OperationRef() = default;
  /// Adds a reference.
  explicit OperationRef(Operation* operation) : operation_(operation) {
    if (operation_) operation_->retain();
  }
  /// Takes over the caller's reference.
  static OperationRef adopt(Operation* operation) {
    OperationRef ref;
    ref.operation_ = operation;
    return ref;
  }
  OperationRef(const OperationRef& other) : OperationRef(other.operation_) {}
  OperationRef(OperationRef&& other) noexcept : operation_(std::exchange(other.operation_, nullptr)) {}
  OperationRef& operator=(OperationRef other) noexcept {
    std::swap(operation_, other.operation_);
    return *this;
  }
  ~OperationRef() {
    if (operation_) operation_->release();
  }
  Operation* get() const { return operation_; }
  Operation* operator->() const { return operation_; }
  Operation& operator*() const { return *operation_; }
  Operation* detach() { return std::exchange(operation_, nullptr); }

 private:
  Operation* operation_ = nullptr;
};

}  // namespace dabke

// One call of a collective: what the user gave, and what became of it. The body of a handle.
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

/// Counted by intrusive references: the user holds one, the runtime another until it has completed. Small: a
/// step may have thousands, and each is read on three threads.
class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  /// What few calls have.
  struct Extras final : Pooled<Extras> {
    // ---- set before submit, constant after
    std::vector<std::int64_t> splits;  // alltoall: rows to each rank of the set; empty: equal parts
    std::string group;                 // ordered with others of this name and `group_size`; empty: on its own
    std::uint32_t group_size = 0;
    /// allgather, alltoall: the outputs are given, with their shapes; the other collectives see it by the data.
    bool gives_outputs = false;
    /// Memory for output `index`, whose dtype and shape are set; null when there is none.
    std::function<void*(std::size_t index, const TensorView& output)> allocate;
    /// The inputs are on a device, and there once all that was on this stream at submit has ended, and this event is
    /// reached; null: they are there already.
    ProgramStream stream;
    ProgramEvent ready_event;
    /// join: the device with which this rank takes part in what is still to come.
    std::optional<Device> join_device;
    std::function<void(Operation&)> callback;

    /// Submit's, of the stream and the event above, then the lane's, which has none once its stream waits for them.
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
  /// The extras, made when there are none. Changed by whose turn it is: the caller before submit, then the
  /// runtime.
  Extras& make_extras();

  // ---- set before submit, constant after
  /// process_set, kind, op, ...; tensors and ranks. The negotiation keeps it.
  std::shared_ptr<Request> request = std::allocate_shared<Request>(PoolAllocator<Request>());
  OneOrMany<TensorView> inputs;
  /// The places where results go; data null: from `allocate`, or memory of our own.
  OneOrMany<TensorView> outputs;
  std::optional<Compression> compression;  // as the caller said; nothing: what the configuration says

  // ---- results; read them after is_done()
  std::int64_t value = 0;  // join: last rank; add_process_set: the id

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  bool is_done() const { return state_.load(std::memory_order_acquire) == State::done; }
  bool is_awaited() const { return state_.load(std::memory_order_relaxed) == State::awaited; }
  /// Whether it completed before `deadline`, and before `check`, if there is one, said stop. Sleeps; several
  /// threads may wait.
  bool wait_until(TimePoint deadline, WaitCheck* check = nullptr) {
    return wait_for(Until::done, deadline, check);
  }
  /// The same, and comes back also when all that it does has been given to its device: end_on_device() tells.
  bool wait_until_enqueued(TimePoint deadline, WaitCheck* check = nullptr) {
    return wait_for(Until::enqueued, deadline, check);
  }
  /// The point of its device behind which the outputs are there, once all that leads to it is on its way; null before
  /// that, when it has completed, and where it is no device's.
  std::shared_ptr<DeviceEvent> end_on_device() const;
  /// ok, an error, or in_progress.
  Code code() const { return is_done() ? code_ : Code::in_progress; }
  /// The same, with the text.
  Status status() const;
  const std::string& message() const { return extras().message; }

  /// Memory for output `index` of the size that its view says: the user's, else our own, of `memory`.
  Status provide_output(std::size_t index, const std::shared_ptr<DeviceMemory>& memory);
  /// What keeps the registered memory among inputs and outputs from being freed until this has completed.
  std::vector<shm::SharedHeap::Use> uses;
  /// By the lane of its device, once for each tensor: what runs of it has ended when `end` is reached. The last one is
  /// behind all others.
  void note_enqueued(const std::shared_ptr<DeviceEvent>& end);
  /// Called once only. Wakes the waiters; the callback is the caller's to run. Without memory for the text,
  /// the code stands alone.
  void complete(const Status& status) noexcept;

  /// Submitted without a word to the coordinator's thread: who waits for it negotiates. Set before submit.
  void leave_to_waiter() { is_left_to_waiter_ = true; }
  bool is_left_to_waiter() const { return is_left_to_waiter_.load(std::memory_order_relaxed); }
  /// Whether it still is; the caller sees to it from now on.
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
  std::unique_ptr<Extras> extras_;           // null: none of them is set
  std::size_t tensors_enqueued_ = 0;         // the lane's
  std::shared_ptr<DeviceEvent> device_end_;  // guarded by the waiting room
};

/// A counted reference to an Operation.
class OperationRef {
 public:
  OperationRef() = default;
  /// Takes a reference of its own.
  explicit OperationRef(Operation* operation) : operation_(operation) {
    if (operation_) operation_->retain();
  }
  /// Takes over the caller's.
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

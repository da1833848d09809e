// One rank of a test's job, as its thread uses it.
#pragma once

#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/point_to_point.h"
#include "runtime/core/runtime.h"
#include "tests/fake_device/fake_device.h"

namespace dabke::test {

/// Throws if the operation failed. The harness rethrows on the main thread.
inline void must(const Status& status) {
  if (!status.is_ok())
    throw std::runtime_error(std::string(name_of(status.code())) + ": " + status.message());
}
template <class T>
T must(Result<T> result) {
  must(result.status());
  return result.take();
}

/// Returns the expected error. Throws if the status is ok.
inline Status must_fail(const Status& status) {
  if (status.is_ok()) throw std::runtime_error("this should have failed, and did not");
  return status;
}

struct Call {
  std::string name = {};  // empty: numbered, the same on ranks that make the same calls
  ReduceOp op = ReduceOp::sum;
  ProcessSetId set = kWorldSet;
  int root = 0;
  double prescale = 1;
  double postscale = 1;
  std::optional<Compression> compression = {};
  std::int32_t priority = 0;
  std::vector<std::int64_t> splits = {};
  std::string group = {};
  std::uint32_t group_size = 0;
  std::function<void(Operation&)> callback = {};
  std::optional<bool> on_device = {};         // nothing: as the job's tensors are
  std::optional<core::Message> message = {};  // of a send or a receive
};

/// The copies of an operation's tensors on a device. The test sees tensors on the host.
class DeviceCopies {
 public:
  DeviceCopies(TestDevice& device, std::size_t tensors) : device_(device), tensors_(tensors) {}

  /// Copies a tensor of the test to the device and, if `is_copied_back`, back after the operation.
  TensorView bring(const TensorView& host, bool is_copied_back);
  /// Copies the results to the host. Call it once the operation has completed.
  void fetch(const Operation& operation);
  /// An output in host memory.
  TensorView output(const Operation& operation, std::size_t index);

 private:
  struct Copy {
    DeviceBuffer memory;
    TensorView host;
    void* device;
  };
  TestDevice& device_;
  const std::size_t tensors_;
  std::mutex mutex_;
  bool is_fetched_ = false;
  std::vector<Copy> copies_;                     // copies that are copied back, and others
  std::vector<std::vector<std::byte>> outputs_;  // outputs that the runtime has allocated
};

/// An operation under way.
class Pending {
 public:
  Pending() = default;
  explicit Pending(Status refused) : refused_(std::move(refused)) {}
  Pending(OperationRef operation, core::Runtime& runtime, std::shared_ptr<DeviceCopies> copies = nullptr)
      : operation_(std::move(operation)), runtime_(&runtime), copies_(std::move(copies)) {}

  Status wait() const {
    if (!refused_.is_ok()) return refused_;
    runtime_->help(*operation_, kNever);
    operation_->wait_until(kNever);
    fetch();
    return operation_->status();
  }
  /// True if the operation completed before the check stopped the wait or the time was up.
  bool wait_checking(WaitCheck& check, double seconds = -1) const {
    const TimePoint deadline = deadline_after(seconds);
    runtime_->help(*operation_, deadline, &check);
    return operation_->wait_until(deadline, &check) && fetch();
  }
  bool wait_for(double seconds) const {
    return !refused_.is_ok() || (operation_->wait_until(deadline_after(seconds)) && fetch());
  }
  bool is_done() const { return !refused_.is_ok() || (operation_->is_done() && fetch()); }
  /// An output in host memory.
  TensorView view(std::size_t index) const {
    return copies_ ? copies_->output(*operation_, index) : operation_->outputs[index];
  }
  bool was_submitted() const { return refused_.is_ok(); }
  Operation& operation() const { return *operation_; }
  std::int64_t value() const { return operation_->value; }
  const std::vector<std::int64_t>& received_splits() const { return operation_->extras().received_splits; }
  template <class T>
  std::vector<T> output(std::size_t index = 0) const {
    const TensorView output = view(index);
    const T* data = static_cast<const T*>(output.data);
    return std::vector<T>(data, data + output.elements());
  }

 private:
  bool fetch() const {
    if (copies_) copies_->fetch(*operation_);
    return true;
  }

  Status refused_;
  OperationRef operation_;
  core::Runtime* runtime_ = nullptr;
  std::shared_ptr<DeviceCopies> copies_;  // null: the tensors are on the host
};

/// One tensor of a call.
struct Argument {
  TensorView input;
  TensorView output = {};  // data null: in place, or allocated by the runtime
  std::string name = {};   // within a group; empty: numbered
};

template <class T>
TensorView view_of(std::vector<T>& data) {
  return {data.data(), dtype_of<T>, {}, Shape{static_cast<std::int64_t>(data.size())}};
}

class Rank {
 public:
  /// `device` has the rank's tensors; null: the host has them.
  Rank(int rank, std::unique_ptr<core::Runtime> runtime, std::shared_ptr<TestDevice> device = nullptr)
      : rank_(rank), device_(std::move(device)), runtime_(std::move(runtime)) {}

  int rank() const { return rank_; }
  int size() const { return runtime_->world().size; }
  core::Runtime& runtime() { return *runtime_; }
  /// Returns null if the rank has another kind of device, or none.
  FakeDevice* device() { return dynamic_cast<FakeDevice*>(device_.get()); }
  Config const& config() const { return runtime_->config(); }

  /// Starts any collective. The tensors' memory must live until it has completed.
  Pending start(CollectiveKind kind, std::vector<Argument> arguments, const Call& call = {});
  Status run(CollectiveKind kind, std::vector<Argument> arguments, const Call& call = {});

  // The collectives in place, on vectors of numbers.
  template <class T>
  Pending allreduce_async(std::vector<T>& data, const Call& call = {}) {
    return start(CollectiveKind::allreduce, {{view_of(data)}}, call);
  }
  template <class T>
  Status allreduce(std::vector<T>& data, const Call& call = {}) {
    return run(CollectiveKind::allreduce, {{view_of(data)}}, call);
  }
  template <class T>
  Status allreduce(std::vector<T>& data, ReduceOp op, ProcessSetId set = kWorldSet) {
    return allreduce(data, {.op = op, .set = set});
  }
  template <class T>
  Pending broadcast_async(std::vector<T>& data, const Call& call = {}) {
    return start(CollectiveKind::broadcast, {{view_of(data)}}, call);
  }
  template <class T>
  Status broadcast(std::vector<T>& data, const Call& call = {}) {
    return run(CollectiveKind::broadcast, {{view_of(data)}}, call);
  }

  /// Sends to a rank of the world, or receives from one.
  template <class T>
  Pending send_async(std::vector<T>& data, int peer, std::int64_t tag = 0, Call call = {}) {
    call.message = {peer, true, tag};
    return start(CollectiveKind::send_recv, {{view_of(data)}}, call);
  }
  template <class T>
  Pending recv_async(std::vector<T>& data, int peer, std::int64_t tag = 0, Call call = {}) {
    call.message = {peer, false, tag};
    return start(CollectiveKind::send_recv, {{view_of(data)}}, call);
  }

  // The runtime allocates the output.
  template <class T>
  Pending allgather_async(std::vector<T>& data, const Call& call = {}) {
    return start(CollectiveKind::allgather, {{view_of(data)}}, call);
  }
  template <class T>
  Result<std::vector<T>> allgather(std::vector<T>& data, const Call& call = {}) {
    return output_of<T>(allgather_async(data, call));
  }
  template <class T>
  Pending alltoall_async(std::vector<T>& data, const Call& call = {}) {
    return start(CollectiveKind::alltoall, {{view_of(data)}}, call);
  }
  template <class T>
  Result<std::vector<T>> alltoall(std::vector<T>& data, const Call& call = {}) {
    return output_of<T>(alltoall_async(data, call));
  }
  template <class T>
  Pending reducescatter_async(std::vector<T>& data, const Call& call = {}) {
    return start(CollectiveKind::reducescatter, {{view_of(data)}}, call);
  }
  template <class T>
  Result<std::vector<T>> reducescatter(std::vector<T>& data, const Call& call = {}) {
    return output_of<T>(reducescatter_async(data, call));
  }

  Pending barrier_async(const Call& call = {});
  Status barrier(const Call& call = {}) { return barrier_async(call).wait(); }
  Pending join_async(ProcessSetId set = kWorldSet);
  /// Returns the world rank that joined last.
  Result<int> join(ProcessSetId set = kWorldSet);
  Result<ProcessSetId> try_add_process_set(std::vector<int> ranks);
  /// Throws if it fails.
  ProcessSetId add_process_set(std::vector<int> ranks) { return must(try_add_process_set(std::move(ranks))); }
  Status remove_process_set(ProcessSetId set);
  /// Adds or removes a set. Only the ranks of the set call it.
  Pending change_set_among_members(CollectiveKind kind, std::vector<int> ranks);

  /// Describes what this rank does and waits for. Any thread may call it.
  std::string describe();
  void set_phase(const char* phase) { phase_ = phase; }
  void close();

 private:
  template <class T>
  static Result<std::vector<T>> output_of(const Pending& pending) {
    DABKE_RETURN_IF_ERROR(pending.wait());
    return pending.output<T>();
  }
  OperationRef make(CollectiveKind kind, std::vector<Argument> arguments, const Call& call);
  std::shared_ptr<DeviceCopies> bring_to_device(Operation& operation, const Call& call);
  Pending submit(OperationRef operation, std::shared_ptr<DeviceCopies> copies = nullptr);
  void remember(const OperationRef& operation, std::shared_ptr<DeviceCopies> copies);

  struct Submitted {
    OperationRef operation;
    std::shared_ptr<DeviceCopies> copies;
  };

  int rank_;
  const std::shared_ptr<TestDevice> device_;
  std::unique_ptr<core::Runtime> runtime_;
  std::atomic<int> calls_{0};
  std::atomic<const char*> phase_{"idle"};
  std::mutex mutex_;
  std::vector<Submitted> submitted_;  // includes the pending ones, for describe()
};

}  // namespace dabke::test

// The handles of operations: waits, and the results of an operation.
#include "bindings/c/handle_output.h"
#include "bindings/c/state.h"
#include "bindings/c/tensor.h"

using namespace dabke;

namespace {

/// Makes an operation that was left to its waiter (wait_follows) go on without one.
void stop_waiting_for(const dabke_handle& handle) {
  if (handle.is_left_to_waiter()) {
    if (const auto runtime = current_runtime()) runtime->stop_waiting_for(handle);
  }
}

/// Called when the program receives the end of the operation, or of all that leads to it on its device.
void receive(const dabke_handle& handle) {
  if (handle.changes == 0) return;
  if (const auto runtime = current_runtime()) runtime->received(handle);
}

/// The limits of a wait: a time, and a check of the caller.
struct WaitLimit {
  double timeout_seconds = -1;
  WaitCheck* check = nullptr;
};

/// Waits by `wait_until`, a member function of the operation, and helps the coordinator meanwhile.
Status wait_by(bool (Operation::*wait_until)(TimePoint, WaitCheck*), dabke_handle& handle,
               const WaitLimit& limit) {
  if (handle.is_done()) return {};
  const TimePoint deadline = deadline_after(limit.timeout_seconds);
  DABKE_RETURN_IF_ERROR(may_wait());
  const reports::WaitScope waiting(*active_timeline());
  if (const auto runtime = current_runtime()) {
    runtime->help(handle, deadline, limit.check);
  } else if (Status none = no_runtime(); none.code() == Code::forked) {
    return none;  // a forked child does not have the threads that it would wait for
  }
  (void)(handle.*wait_until)(deadline, limit.check);
  return {};
}

/// Waits for the operation. Returns its status, or in_progress after a timeout.
Status wait(dabke_handle& handle, const WaitLimit& limit) {
  DABKE_RETURN_IF_ERROR(wait_by(&Operation::wait_until, handle, limit));
  if (handle.is_done()) receive(handle);
  return handle.status();
}

/// Makes the program's stream wait for an operation that is enqueued on its device. After the operation has
/// ended, the stream has nothing to wait for.
Status wait_on_stream(dabke_handle& handle, ProgramStream stream, const WaitLimit& limit) {
  DABKE_RETURN_IF_ERROR(wait_by(&Operation::wait_until_enqueued, handle, limit));
  const bool was_stopped = limit.check != nullptr && limit.check->has_stopped();
  const auto end = was_stopped ? nullptr : handle.end_on_device();
  if (end != nullptr || handle.is_done()) receive(handle);
  if (end == nullptr) return handle.status();
  const Status held = end->hold_back(stream);
  if (held.is_ok()) return {};
  return {held.code(),
          fmt::format("dabke_wait_stream: {}: {}", name_of_call(*handle.request), held.message())};
}

/// Calls `wait` with the caller's check, which may be null.
template <class Wait>
Status wait_checking(dabke_handle* handle, double timeout_seconds, dabke_check check, void* context,
                     Wait wait) {
  if (handle == nullptr) return missing_handle();
  if (check == nullptr) return wait(*handle, WaitLimit{timeout_seconds});
  const auto stops = [check, context] {
    const InApplication inside(kWaitCheck);
    return check(context) != 0;
  };
  WaitCheck asked(stops, [handle] { return name_of_call(*handle->request); });
  Status status = wait(*handle, WaitLimit{timeout_seconds, &asked});
  return asked.has_stopped() ? asked.stopped() : status;
}

}  // namespace

extern "C" {

void dabke_handle_retain(dabke_handle* handle) {
  if (handle) handle->retain();
}
void dabke_handle_free(dabke_handle* handle) {
  if (handle == nullptr) return;
  stop_waiting_for(*handle);
  handle->release();
}
int dabke_poll(const dabke_handle* handle) {
  if (handle == nullptr) return 0;
  stop_waiting_for(*handle);
  if (!handle->is_done()) return 0;
  return entry_or(1, [&] {
    receive(*handle);
    return 1;
  });
}

dabke_status dabke_wait(dabke_handle* handle, double timeout_seconds) {
  return entry([&]() -> Status {
    if (handle == nullptr) return missing_handle();
    return wait(*handle, {timeout_seconds});
  });
}
dabke_status dabke_wait_checking(dabke_handle* handle, double timeout_seconds, dabke_check check,
                                 void* context) {
  return entry([&]() -> Status { return wait_checking(handle, timeout_seconds, check, context, wait); });
}
dabke_status dabke_handle_status(const dabke_handle* handle) {
  return handle != nullptr ? static_cast<dabke_status>(handle->code()) : entry(missing_handle);
}
const char* dabke_handle_message(const dabke_handle* handle) {
  if (handle == nullptr || !handle->is_done() || handle->code() == Code::ok) return "";
  // The handle has no text if there was no memory for one.
  return handle->message().empty() ? text_of(handle->code()).data() : handle->message().c_str();
}
size_t dabke_handle_output_count(const dabke_handle* handle) { return handle ? handle->outputs.size() : 0; }

dabke_status dabke_handle_output(const dabke_handle* handle, size_t index, const DLTensor** output) {
  return entry([&]() -> Status {
    DABKE_RETURN_IF_ERROR(settled_output(handle, index).status());
    if (output == nullptr) return {Code::invalid_argument, "output is NULL; pass a pointer for the result"};
    std::call_once(handle->outputs_made, [handle] {
      std::vector<DLTensor> made;  // all of them, or none if memory runs out
      for (const TensorView& view : handle->outputs) made.push_back(to_dlpack(view));
      handle->dl_outputs = std::move(made);
    });
    *output = &handle->dl_outputs[index];
    return {};
  });
}
dabke_status dabke_handle_received_splits(const dabke_handle* handle, const int64_t** splits, size_t* count) {
  return entry([&]() -> Status {
    if (const Status status = settled(handle); !status.is_ok()) return status;
    if (handle->request->kind != CollectiveKind::alltoall || splits == nullptr || count == nullptr) {
      return {Code::invalid_argument,
              "only an alltoall has received splits; pass its handle, and pointers for them"};
    }
    *splits = handle->extras().received_splits.data();
    *count = handle->extras().received_splits.size();
    return {};
  });
}
dabke_status dabke_handle_last_joined_rank(const dabke_handle* handle, int32_t* rank) {
  return entry([&]() -> Status {
    if (const Status status = completed(handle); !status.is_ok()) return status;
    if (handle->request->kind != CollectiveKind::join || rank == nullptr) {
      return {Code::invalid_argument,
              "only a join has a last joined rank; pass its handle, and a pointer for the rank"};
    }
    *rank = static_cast<int32_t>(handle->value);
    return {};
  });
}
dabke_status dabke_handle_sender(const dabke_handle* handle, int32_t* rank) {
  return entry([&]() -> Status {
    if (const Status status = completed(handle); !status.is_ok()) return status;
    if (handle->request->kind != CollectiveKind::send_recv || rank == nullptr) {
      return {
          Code::invalid_argument,
          "only a message has a sender; pass the handle of a send or a receive, and a pointer for the rank"};
    }
    *rank = static_cast<int32_t>(handle->value);
    return {};
  });
}
dabke_status dabke_wait_stream(dabke_handle* handle, void* stream) {
  return entry([&]() -> Status {
    if (handle == nullptr) return missing_handle();
    return wait_on_stream(*handle, {stream}, {});
  });
}
dabke_status dabke_wait_stream_checking(dabke_handle* handle, void* stream, double timeout_seconds,
                                        dabke_check check, void* context) {
  return entry([&]() -> Status {
    const auto wait_there = [stream](dabke_handle& those, const WaitLimit& limit) {
      return wait_on_stream(those, {stream}, limit);
    };
    return wait_checking(handle, timeout_seconds, check, context, wait_there);
  });
}

}  // extern "C"

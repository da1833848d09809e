// The collectives and their handles.
#include <limits>
#include <span>

#include "bindings/c/handle_output.h"
#include "bindings/c/state.h"
#include "bindings/c/structs.h"
#include "bindings/c/tensor.h"

using namespace dabke;

namespace {

/// The arguments of any collective, single or grouped.
struct Call {
  CollectiveKind kind;
  std::span<const char* const> names;
  std::span<const DLTensor* const> inputs;
  /// Null, or as many as inputs; each may be null where its size is known.
  const DLTensor* const* outputs = nullptr;
  const dabke_options* options = nullptr;
};

Status set_options(Operation& operation, const dabke_options& options) {
  Request& request = *operation.request;
  const int op = number_in(options.op);
  if (op < 0 || op > static_cast<int>(kLast<ReduceOp>)) {
    return {Code::invalid_argument,
            fmt::format("{} '{}': reduce operation {} does not exist; use a dabke_reduce_op",
                        name_of(request.kind), request.name, op)};
  }
  request.process_set = options.process_set;
  if (reduces(request.kind)) {
    request.op = static_cast<ReduceOp>(op);
    request.prescale = options.prescale_factor;
    request.postscale = options.postscale_factor;
  }
  if (has_root(request.kind)) request.root = options.root_rank;
  if (request.kind == CollectiveKind::alltoall && options.splits_count != 0) {
    if (options.splits == nullptr) {
      return {Code::invalid_argument, fmt::format("alltoall '{}': splits_count is {}, but splits is NULL",
                                                  request.name, options.splits_count)};
    }
    operation.make_extras().splits.assign(options.splits, options.splits + options.splits_count);
  }
  if (options.stream != nullptr || options.ready_event != nullptr) {
    operation.make_extras().stream = {options.stream};
    operation.make_extras().ready_event = {options.ready_event};
  }
  request.priority = options.priority;
  const int compression = number_in(options.compression);
  if (compression < DABKE_COMPRESSION_NONE || compression > DABKE_COMPRESSION_DEFAULT) {
    return {Code::invalid_argument,
            fmt::format("{} '{}': compression {} does not exist; use a dabke_compression",
                        name_of(request.kind), request.name, compression)};
  }
  if (compression != DABKE_COMPRESSION_DEFAULT) operation.compression = static_cast<Compression>(compression);
  if (request.kind == CollectiveKind::join && options.device != -1) {
    if (options.device < -1 || options.device > std::numeric_limits<int>::max()) {
      return {Code::invalid_argument,
              fmt::format("join: device {} is not -1 or the number of a CUDA device", options.device)};
    }
    operation.make_extras().join_device = Device{DeviceType::cuda, static_cast<int>(options.device)};
  }
  return {};
}

void set_functions(Operation& operation, const dabke_options& options) {
  if (options.output_allocator != nullptr) {
    operation.make_extras().allocate = [give = options.output_allocator,
                                        context = options.output_allocator_context](
                                           std::size_t index, const TensorView& output) -> void* {
      DLTensor tensor = to_dlpack(output);
      const InApplication inside(kOutputAllocator);
      return give(context, index, &tensor) == 0 ? tensor.data : nullptr;
    };
  }
  if (options.callback != nullptr) {
    operation.make_extras().callback = [call = options.callback,
                                        context = options.callback_context](Operation& done) {
      const InApplication inside("a callback");
      call(context, static_cast<dabke_handle*>(&done), static_cast<dabke_status>(done.code()));
    };
  }
}

Status set_tensors(Operation& operation, const Call& call) {
  if (call.outputs != nullptr && has_free_rows(call.kind)) operation.make_extras().gives_outputs = true;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const char* name = call.names[i];
    if (name == nullptr || *name == '\0') {
      return {Code::invalid_argument,
              fmt::format("{}: {} is empty: give it one, the same on every rank", name_of(call.kind),
                          call.inputs.size() == 1
                              ? "the tensor's name"
                              : fmt::format("the name of tensor {} of {}", i + 1, call.inputs.size()))};
    }
    DABKE_ASSIGN_OR_RETURN(TensorView input, from_dlpack(call.inputs[i], {call.kind, name}));
    TensorView output;
    if (call.outputs != nullptr && (call.outputs[i] != nullptr || has_free_rows(call.kind))) {
      DABKE_ASSIGN_OR_RETURN(output, from_dlpack(call.outputs[i], {call.kind, name, true}));
    }
    operation.request->tensors.push_back({name, input.dtype, input.shape});
    operation.inputs.push_back(std::move(input));
    operation.outputs.push_back(std::move(output));
  }
  return {};
}

Result<dabke_options> options_of(const Call& call) {
  dabke_options options = DABKE_OPTIONS_INIT;
  DABKE_RETURN_IF_ERROR(read_struct(call.options, options, "dabke_options"));
  return options;
}

void set_group(Operation& operation, const dabke_options& options) {
  if (options.group == nullptr || options.group_size <= 1) return;
  operation.request->is_group = true;
  operation.make_extras().group = options.group;
  operation.make_extras().group_size = options.group_size;
}

/// Tells the others, which may have accepted the same call; `why` is this rank's error.
Status refuse(core::Runtime& runtime, const Call& call, const dabke_options& options, Status why) {
  Operation operation;
  Request& request = *operation.request;
  request.kind = call.kind;
  request.process_set = options.process_set;
  for (const char* const name : call.names) {
    if (name == nullptr || *name == '\0') return why;  // what has no name, the others cannot have called
    request.tensors.push_back({.name = name});
  }
  request.name = call.names.empty() ? std::string(name_of(call.kind)) : call.names[0];
  set_group(operation, options);
  return runtime.refuse(operation, std::move(why));
}

Result<OperationRef> make_operation(const Call& call, const dabke_options& options) {
  auto operation = OperationRef::adopt(new dabke_handle);
  Request& request = *operation->request;
  request.kind = call.kind;
  request.name =
      call.names.empty() || call.names[0] == nullptr ? std::string(name_of(call.kind)) : call.names[0];
  DABKE_RETURN_IF_ERROR(set_tensors(*operation, call));
  DABKE_RETURN_IF_ERROR(set_options(*operation, options));
  set_group(*operation, options);
  set_functions(*operation, options);
  return operation;
}

/// make_operation(), whose errors the other ranks get too.
Result<OperationRef> make_or_refuse(core::Runtime& runtime, const Call& call, const dabke_options& options) {
  auto operation = make_operation(call, options);
  if (operation.is_ok()) return operation;
  return refuse(runtime, call, options, operation.status());
}

Status start(const Call& call, dabke_handle** handle) {
  if (handle != nullptr) *handle = nullptr;
  const auto runtime = current_runtime();
  if (!runtime) return no_runtime();
  DABKE_ASSIGN_OR_RETURN(const dabke_options options, options_of(call));
  DABKE_ASSIGN_OR_RETURN(OperationRef operation, make_or_refuse(*runtime, call, options));
  // Without a handle nobody can wait for it.
  const bool wait_follows = options.wait_follows != 0 && handle != nullptr;
  DABKE_RETURN_IF_ERROR(wait_follows ? runtime->submit_and_leave_to_waiter(operation)
                                     : runtime->submit(operation));
  if (handle != nullptr) *handle = static_cast<dabke_handle*>(operation.detach());
  return {};
}

/// Blocking; the handle is kept when the caller wants it and all went well.
Status run(const Call& call, dabke_handle** handle = nullptr) {
  if (handle != nullptr) *handle = nullptr;
  const auto runtime = current_runtime();
  if (!runtime) return no_runtime();
  DABKE_RETURN_IF_ERROR(may_wait());
  DABKE_ASSIGN_OR_RETURN(const dabke_options options, options_of(call));
  DABKE_ASSIGN_OR_RETURN(OperationRef operation, make_or_refuse(*runtime, call, options));
  const reports::WaitScope waiting(*active_timeline());
  DABKE_RETURN_IF_ERROR(runtime->run(operation));
  if (handle != nullptr) *handle = static_cast<dabke_handle*>(operation.detach());
  return {};
}

Status grouped(CollectiveKind kind, const char* const* names, const DLTensor* const* inputs,
               const DLTensor* const* outputs, std::size_t count, const dabke_options* options,
               dabke_handle** handle, Call& call) {
  if (handle != nullptr) *handle = nullptr;
  if (count == 0 || names == nullptr || inputs == nullptr) {
    return {Code::invalid_argument,
            fmt::format("grouped {}: a group needs at least one name and tensor", name_of(kind))};
  }
  call = {kind, {names, count}, {inputs, count}, outputs, options};
  return {};
}

Call single(CollectiveKind kind, const char* const* name, const DLTensor* const* input,
            const DLTensor* const* output, const dabke_options* options) {
  return {kind, {name, 1}, {input, 1}, output, options};
}

Call without_tensor(CollectiveKind kind, const dabke_options* options) {
  return {kind, {}, {}, nullptr, options};
}

/// An operation that was left to its waiter goes on by itself.
void stop_waiting_for(const dabke_handle& handle) {
  if (handle.is_left_to_waiter()) {
    if (const auto runtime = current_runtime()) runtime->stop_waiting_for(handle);
  }
}

/// How long a call waits.
struct WaitLimit {
  double timeout_seconds = -1;
  WaitCheck* check = nullptr;
};

/// Waits by `wait_until`, one of the operation's, and helps meanwhile.
Status wait_by(bool (Operation::*wait_until)(TimePoint, WaitCheck*), dabke_handle& handle,
               const WaitLimit& limit) {
  if (handle.is_done()) return {};
  const TimePoint deadline = deadline_after(limit.timeout_seconds);
  DABKE_RETURN_IF_ERROR(may_wait());
  const reports::WaitScope waiting(*active_timeline());
  if (const auto runtime = current_runtime()) {
    runtime->help(handle, deadline, limit.check);
  } else if (Status none = no_runtime(); none.code() == Code::forked) {
    return none;  // it would wait for threads that a forked child does not have
  }
  (void)(handle.*wait_until)(deadline, limit.check);
  return {};
}

/// An operation that has not completed is in progress.
Status wait(dabke_handle& handle, const WaitLimit& limit) {
  DABKE_RETURN_IF_ERROR(wait_by(&Operation::wait_until, handle, limit));
  return handle.status();
}

/// The program's stream waits for what is on its way at the device; for what has ended there is nothing to wait for.
Status wait_on_stream(dabke_handle& handle, ProgramStream stream, const WaitLimit& limit) {
  DABKE_RETURN_IF_ERROR(wait_by(&Operation::wait_until_enqueued, handle, limit));
  const bool was_stopped = limit.check != nullptr && limit.check->has_stopped();
  const auto end = was_stopped ? nullptr : handle.end_on_device();
  if (end == nullptr) return handle.status();
  const Status held = end->hold_back(stream);
  if (held.is_ok()) return {};
  return {held.code(), fmt::format("dabke_wait_stream: {} '{}': {}", name_of(handle.request->kind),
                                   handle.request->name, held.message())};
}

/// `wait` with the caller's check, which may be null.
template <class Wait>
Status wait_checking(dabke_handle* handle, double timeout_seconds, dabke_check check, void* context,
                     Wait wait) {
  if (handle == nullptr) return missing_handle();
  if (check == nullptr) return wait(*handle, WaitLimit{timeout_seconds});
  const auto stops = [check, context] {
    const InApplication inside(kWaitCheck);
    return check(context) != 0;
  };
  const auto names = [handle] {
    return fmt::format("{} '{}'", name_of(handle->request->kind), handle->request->name);
  };
  WaitCheck asked(stops, names);
  Status status = wait(*handle, WaitLimit{timeout_seconds, &asked});
  return asked.has_stopped() ? asked.stopped() : status;
}

}  // namespace

extern "C" {

dabke_status dabke_allreduce_async(const char* name, const DLTensor* input, const DLTensor* output,
                                   const dabke_options* options, dabke_handle** handle) {
  return entry([&]() -> Status {
    return start(single(CollectiveKind::allreduce, &name, &input, &output, options), handle);
  });
}
dabke_status dabke_allreduce(const char* name, const DLTensor* input, const DLTensor* output,
                             const dabke_options* options) {
  return entry(
      [&]() -> Status { return run(single(CollectiveKind::allreduce, &name, &input, &output, options)); });
}
dabke_status dabke_broadcast_async(const char* name, const DLTensor* input, const DLTensor* output,
                                   const dabke_options* options, dabke_handle** handle) {
  return entry([&]() -> Status {
    return start(single(CollectiveKind::broadcast, &name, &input, &output, options), handle);
  });
}
dabke_status dabke_broadcast(const char* name, const DLTensor* input, const DLTensor* output,
                             const dabke_options* options) {
  return entry(
      [&]() -> Status { return run(single(CollectiveKind::broadcast, &name, &input, &output, options)); });
}
dabke_status dabke_reducescatter_async(const char* name, const DLTensor* input, const DLTensor* output,
                                       const dabke_options* options, dabke_handle** handle) {
  return entry([&]() -> Status {
    return start(single(CollectiveKind::reducescatter, &name, &input, &output, options), handle);
  });
}
dabke_status dabke_reducescatter(const char* name, const DLTensor* input, const DLTensor* output,
                                 const dabke_options* options) {
  return entry([&]() -> Status {
    if (output == nullptr) {
      return {Code::invalid_argument,
              "dabke_reducescatter: output is NULL; pass one, or use dabke_reducescatter_async, "
              "whose handle can own it"};
    }
    return run(single(CollectiveKind::reducescatter, &name, &input, &output, options));
  });
}
dabke_status dabke_allgather_async(const char* name, const DLTensor* input, const dabke_options* options,
                                   dabke_handle** handle) {
  return entry([&]() -> Status {
    return start(single(CollectiveKind::allgather, &name, &input, nullptr, options), handle);
  });
}
dabke_status dabke_allgather(const char* name, const DLTensor* input, const dabke_options* options,
                             dabke_handle** handle) {
  return entry([&]() -> Status {
    return run(single(CollectiveKind::allgather, &name, &input, nullptr, options), handle);
  });
}
dabke_status dabke_allgather_into_async(const char* name, const DLTensor* input, const DLTensor* output,
                                        const dabke_options* options, dabke_handle** handle) {
  return entry([&]() -> Status {
    return start(single(CollectiveKind::allgather, &name, &input, &output, options), handle);
  });
}
dabke_status dabke_allgather_into(const char* name, const DLTensor* input, const DLTensor* output,
                                  const dabke_options* options) {
  return entry(
      [&]() -> Status { return run(single(CollectiveKind::allgather, &name, &input, &output, options)); });
}
dabke_status dabke_alltoall_async(const char* name, const DLTensor* input, const dabke_options* options,
                                  dabke_handle** handle) {
  return entry([&]() -> Status {
    return start(single(CollectiveKind::alltoall, &name, &input, nullptr, options), handle);
  });
}
dabke_status dabke_alltoall(const char* name, const DLTensor* input, const dabke_options* options,
                            dabke_handle** handle) {
  return entry([&]() -> Status {
    return run(single(CollectiveKind::alltoall, &name, &input, nullptr, options), handle);
  });
}
dabke_status dabke_alltoall_into_async(const char* name, const DLTensor* input, const DLTensor* output,
                                       const dabke_options* options, dabke_handle** handle) {
  return entry([&]() -> Status {
    return start(single(CollectiveKind::alltoall, &name, &input, &output, options), handle);
  });
}
dabke_status dabke_alltoall_into(const char* name, const DLTensor* input, const DLTensor* output,
                                 const dabke_options* options) {
  return entry(
      [&]() -> Status { return run(single(CollectiveKind::alltoall, &name, &input, &output, options)); });
}

// The grouped forms: both collectives, with and without waiting, check and forward alike.
#define DABKE_GROUPED(kind, outputs, handle, act)                                                            \
  Call call{};                                                                                               \
  const Status status = grouped(CollectiveKind::kind, names, inputs, outputs, count, options, handle, call); \
  return status.is_ok() ? act : status

dabke_status dabke_grouped_allreduce_async(const char* const* names, const DLTensor* const* inputs,
                                           const DLTensor* const* outputs, size_t count,
                                           const dabke_options* options, dabke_handle** handle) {
  return entry([&]() -> Status { DABKE_GROUPED(allreduce, outputs, handle, start(call, handle)); });
}
dabke_status dabke_grouped_allreduce(const char* const* names, const DLTensor* const* inputs,
                                     const DLTensor* const* outputs, size_t count,
                                     const dabke_options* options) {
  return entry([&]() -> Status { DABKE_GROUPED(allreduce, outputs, nullptr, run(call)); });
}
dabke_status dabke_grouped_allgather_async(const char* const* names, const DLTensor* const* inputs,
                                           size_t count, const dabke_options* options,
                                           dabke_handle** handle) {
  return entry([&]() -> Status { DABKE_GROUPED(allgather, nullptr, handle, start(call, handle)); });
}
dabke_status dabke_grouped_allgather(const char* const* names, const DLTensor* const* inputs, size_t count,
                                     const dabke_options* options, dabke_handle** handle) {
  return entry([&]() -> Status { DABKE_GROUPED(allgather, nullptr, handle, run(call, handle)); });
}
dabke_status dabke_grouped_reducescatter_async(const char* const* names, const DLTensor* const* inputs,
                                               const DLTensor* const* outputs, size_t count,
                                               const dabke_options* options, dabke_handle** handle) {
  return entry([&]() -> Status { DABKE_GROUPED(reducescatter, outputs, handle, start(call, handle)); });
}
dabke_status dabke_grouped_reducescatter(const char* const* names, const DLTensor* const* inputs,
                                         const DLTensor* const* outputs, size_t count,
                                         const dabke_options* options) {
  return entry([&]() -> Status { DABKE_GROUPED(reducescatter, outputs, nullptr, run(call)); });
}
#undef DABKE_GROUPED

dabke_status dabke_barrier_async(const dabke_options* options, dabke_handle** handle) {
  return entry([&]() -> Status { return start(without_tensor(CollectiveKind::barrier, options), handle); });
}
dabke_status dabke_barrier(const dabke_options* options) {
  return entry([&]() -> Status { return run(without_tensor(CollectiveKind::barrier, options)); });
}
dabke_status dabke_join_async(const dabke_options* options, dabke_handle** handle) {
  return entry([&]() -> Status { return start(without_tensor(CollectiveKind::join, options), handle); });
}
dabke_status dabke_join(const dabke_options* options, int32_t* last_rank) {
  return entry([&]() -> Status {
    dabke_handle* handle = nullptr;
    DABKE_RETURN_IF_ERROR(run(without_tensor(CollectiveKind::join, options), &handle));
    if (last_rank != nullptr) *last_rank = static_cast<int32_t>(handle->value);
    handle->release();
    return {};
  });
}

dabke_status dabke_refuse(dabke_collective collective, const char* name, const dabke_options* options,
                          const char* reason) {
  return entry([&]() -> Status {
    const auto runtime = current_runtime();
    if (!runtime) return no_runtime();
    const int kind = number_in(collective);
    if (kind < 0 || kind > DABKE_BARRIER)
      return {Code::invalid_argument,
              fmt::format("dabke_refuse: collective {} does not exist; use a dabke_collective", kind)};
    if (reason == nullptr || *reason == '\0')
      return {Code::invalid_argument,
              "dabke_refuse: the reason is empty; say what the other ranks are to read"};
    const Call call = single(static_cast<CollectiveKind>(kind), &name, nullptr, nullptr, options);
    DABKE_ASSIGN_OR_RETURN(const dabke_options read, options_of(call));
    (void)refuse(*runtime, call, read, {Code::invalid_argument, reason});
    return {};
  });
}

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
  return handle->is_done();
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
  // The handle has no text of its own when there was no memory for one.
  return handle->message().empty() ? text_of(handle->code()).data() : handle->message().c_str();
}
size_t dabke_handle_output_count(const dabke_handle* handle) { return handle ? handle->outputs.size() : 0; }

dabke_status dabke_handle_output(const dabke_handle* handle, size_t index, const DLTensor** output) {
  return entry([&]() -> Status {
    DABKE_RETURN_IF_ERROR(settled_output(handle, index).status());
    if (output == nullptr) return {Code::invalid_argument, "output is NULL; pass where to put it"};
    std::call_once(handle->outputs_made, [handle] {
      std::vector<DLTensor> made;  // or none, when there is no memory for all
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
      return {Code::invalid_argument, "received splits belong to an alltoall; pass where to put them"};
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
      return {Code::invalid_argument, "the last joined rank belongs to a join; pass where to put it"};
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

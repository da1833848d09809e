// The entry points of the collectives. Each states its collective and the memory that it takes.
#include "bindings/c/call.h"
#include "bindings/c/numbers.h"
#include "bindings/c/state.h"

using namespace dabke;

namespace {

Status start(const Call& call, dabke_handle** handle) {
  if (handle != nullptr) *handle = nullptr;
  DABKE_RETURN_IF_ERROR(check_group(call));
  const auto runtime = current_runtime();
  if (!runtime) return no_runtime();
  DABKE_ASSIGN_OR_RETURN(const dabke_options options, options_of(call));
  DABKE_ASSIGN_OR_RETURN(OperationRef operation, make_or_refuse(*runtime, call, options));
  // Without a handle, no thread can wait for the operation.
  const bool wait_follows = options.wait_follows != 0 && handle != nullptr;
  DABKE_RETURN_IF_ERROR(wait_follows ? runtime->submit_and_leave_to_waiter(operation)
                                     : runtime->submit(operation));
  if (handle != nullptr) *handle = static_cast<dabke_handle*>(operation.detach());
  return {};
}

/// Runs the call to its end. On success the caller gets the handle, if it passed room for one.
Status run(const Call& call, dabke_handle** handle) {
  if (handle != nullptr) *handle = nullptr;
  DABKE_RETURN_IF_ERROR(check_group(call));
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

/// An asynchronous entry point: it returns after submit.
dabke_status start_call(const Call& call, dabke_handle** handle) {
  return entry([&] { return start(call, handle); });
}

/// A blocking entry point.
dabke_status run_call(const Call& call, dabke_handle** handle = nullptr) {
  return entry([&] { return run(call, handle); });
}

}  // namespace

extern "C" {

dabke_status dabke_allreduce_async(const char* name, const DLTensor* input, const DLTensor* output,
                                   const dabke_options* options, dabke_handle** handle) {
  return start_call(single(CollectiveKind::allreduce, &name, &input, &output, options), handle);
}
dabke_status dabke_allreduce(const char* name, const DLTensor* input, const DLTensor* output,
                             const dabke_options* options) {
  return run_call(single(CollectiveKind::allreduce, &name, &input, &output, options));
}
dabke_status dabke_broadcast_async(const char* name, const DLTensor* input, const DLTensor* output,
                                   const dabke_options* options, dabke_handle** handle) {
  return start_call(single(CollectiveKind::broadcast, &name, &input, &output, options), handle);
}
dabke_status dabke_broadcast(const char* name, const DLTensor* input, const DLTensor* output,
                             const dabke_options* options) {
  return run_call(single(CollectiveKind::broadcast, &name, &input, &output, options));
}
dabke_status dabke_reducescatter_async(const char* name, const DLTensor* input, const DLTensor* output,
                                       const dabke_options* options, dabke_handle** handle) {
  return start_call(single(CollectiveKind::reducescatter, &name, &input, &output, options), handle);
}
dabke_status dabke_reducescatter(const char* name, const DLTensor* input, const DLTensor* output,
                                 const dabke_options* options) {
  if (output == nullptr) {
    return report({Code::invalid_argument,
                   "dabke_reducescatter: output is NULL; pass an output, or use dabke_reducescatter_async, "
                   "whose handle can own it"});
  }
  return run_call(single(CollectiveKind::reducescatter, &name, &input, &output, options));
}
dabke_status dabke_send_async(const char* name, const DLTensor* tensor, int32_t peer,
                              const dabke_options* options, dabke_handle** handle) {
  return start_call(one_end({peer, true}, &name, &tensor, options), handle);
}
dabke_status dabke_send(const char* name, const DLTensor* tensor, int32_t peer,
                        const dabke_options* options) {
  return run_call(one_end({peer, true}, &name, &tensor, options));
}
dabke_status dabke_recv_async(const char* name, const DLTensor* tensor, int32_t peer,
                              const dabke_options* options, dabke_handle** handle) {
  return start_call(one_end({peer, false}, &name, &tensor, options), handle);
}
dabke_status dabke_recv(const char* name, const DLTensor* tensor, int32_t peer,
                        const dabke_options* options) {
  return run_call(one_end({peer, false}, &name, &tensor, options));
}
dabke_status dabke_allgather_async(const char* name, const DLTensor* input, const dabke_options* options,
                                   dabke_handle** handle) {
  return start_call(single(CollectiveKind::allgather, &name, &input, nullptr, options), handle);
}
dabke_status dabke_allgather(const char* name, const DLTensor* input, const dabke_options* options,
                             dabke_handle** handle) {
  return run_call(single(CollectiveKind::allgather, &name, &input, nullptr, options), handle);
}
dabke_status dabke_allgather_into_async(const char* name, const DLTensor* input, const DLTensor* output,
                                        const dabke_options* options, dabke_handle** handle) {
  return start_call(single(CollectiveKind::allgather, &name, &input, &output, options), handle);
}
dabke_status dabke_allgather_into(const char* name, const DLTensor* input, const DLTensor* output,
                                  const dabke_options* options) {
  return run_call(single(CollectiveKind::allgather, &name, &input, &output, options));
}
dabke_status dabke_alltoall_async(const char* name, const DLTensor* input, const dabke_options* options,
                                  dabke_handle** handle) {
  return start_call(single(CollectiveKind::alltoall, &name, &input, nullptr, options), handle);
}
dabke_status dabke_alltoall(const char* name, const DLTensor* input, const dabke_options* options,
                            dabke_handle** handle) {
  return run_call(single(CollectiveKind::alltoall, &name, &input, nullptr, options), handle);
}
dabke_status dabke_alltoall_into_async(const char* name, const DLTensor* input, const DLTensor* output,
                                       const dabke_options* options, dabke_handle** handle) {
  return start_call(single(CollectiveKind::alltoall, &name, &input, &output, options), handle);
}
dabke_status dabke_alltoall_into(const char* name, const DLTensor* input, const DLTensor* output,
                                 const dabke_options* options) {
  return run_call(single(CollectiveKind::alltoall, &name, &input, &output, options));
}

dabke_status dabke_grouped_allreduce_async(const char* const* names, const DLTensor* const* inputs,
                                           const DLTensor* const* outputs, size_t count,
                                           const dabke_options* options, dabke_handle** handle) {
  return start_call(grouped(CollectiveKind::allreduce, names, inputs, outputs, count, options), handle);
}
dabke_status dabke_grouped_allreduce(const char* const* names, const DLTensor* const* inputs,
                                     const DLTensor* const* outputs, size_t count,
                                     const dabke_options* options) {
  return run_call(grouped(CollectiveKind::allreduce, names, inputs, outputs, count, options));
}
dabke_status dabke_grouped_allgather_async(const char* const* names, const DLTensor* const* inputs,
                                           size_t count, const dabke_options* options,
                                           dabke_handle** handle) {
  return start_call(grouped(CollectiveKind::allgather, names, inputs, nullptr, count, options), handle);
}
dabke_status dabke_grouped_allgather(const char* const* names, const DLTensor* const* inputs, size_t count,
                                     const dabke_options* options, dabke_handle** handle) {
  return run_call(grouped(CollectiveKind::allgather, names, inputs, nullptr, count, options), handle);
}
dabke_status dabke_grouped_reducescatter_async(const char* const* names, const DLTensor* const* inputs,
                                               const DLTensor* const* outputs, size_t count,
                                               const dabke_options* options, dabke_handle** handle) {
  return start_call(grouped(CollectiveKind::reducescatter, names, inputs, outputs, count, options), handle);
}
dabke_status dabke_grouped_reducescatter(const char* const* names, const DLTensor* const* inputs,
                                         const DLTensor* const* outputs, size_t count,
                                         const dabke_options* options) {
  return run_call(grouped(CollectiveKind::reducescatter, names, inputs, outputs, count, options));
}

dabke_status dabke_barrier_async(const dabke_options* options, dabke_handle** handle) {
  return start_call(without_tensor(CollectiveKind::barrier, options), handle);
}
dabke_status dabke_barrier(const dabke_options* options) {
  return run_call(without_tensor(CollectiveKind::barrier, options));
}
dabke_status dabke_join_async(const dabke_options* options, dabke_handle** handle) {
  return start_call(without_tensor(CollectiveKind::join, options), handle);
}
dabke_status dabke_join(const dabke_options* options, int32_t* last_rank) {
  dabke_handle* handle = nullptr;
  const dabke_status status = run_call(without_tensor(CollectiveKind::join, options), &handle);
  if (status != DABKE_OK) return status;
  if (last_rank != nullptr) *last_rank = static_cast<int32_t>(handle->value);
  handle->release();
  return DABKE_OK;
}

dabke_status dabke_refuse(dabke_collective collective, const char* name, const dabke_options* options,
                          const char* reason) {
  return entry([&]() -> Status {
    if (!current_runtime()) return no_runtime();
    const auto kind = collective_in(collective);
    if (!kind) {
      return {Code::invalid_argument,
              fmt::format("dabke_refuse: collective {} does not exist; use a dabke_collective",
                          number_in(collective))};
    }
    if (reason == nullptr || *reason == '\0') {
      return {Code::invalid_argument, "dabke_refuse: the reason is empty; pass the text for the other ranks"};
    }
    return refuse_call(single(*kind, &name, nullptr, nullptr, options), {Code::invalid_argument, reason});
  });
}

}  // extern "C"

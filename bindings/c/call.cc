#include "bindings/c/call.h"

#include <limits>

#include "bindings/c/numbers.h"
#include "bindings/c/state.h"
#include "bindings/c/structs.h"
#include "bindings/c/tensor.h"

namespace dabke {
namespace {

/// The error of a number that the enum does not have.
Status unknown_number(const Request& request, std::string_view what, int number, std::string_view type) {
  return {Code::invalid_argument,
          fmt::format("{}: {} {} does not exist; use a {}", name_of_call(request), what, number, type)};
}

Status set_options(Operation& operation, const dabke_options& options) {
  Request& request = *operation.request;
  const auto op = row_in<ReduceOp>(options.op);
  if (!op) return unknown_number(request, "reduce operation", number_in(options.op), "dabke_reduce_op");
  request.process_set = options.process_set;
  if (reduces(request.kind)) {
    request.op = *op;
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
  request.call_sequence = static_cast<std::uint64_t>(options.call_sequence);
  if (number_in(options.compression) != DABKE_COMPRESSION_DEFAULT) {
    operation.compression = row_in<Compression>(options.compression);
    if (!operation.compression)
      return unknown_number(request, "compression", number_in(options.compression), "dabke_compression");
  }
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
      if (const auto runtime = done.changes != 0 ? current_runtime() : nullptr) runtime->received(done);
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
              fmt::format("{}: {} is empty: pass a name, the same on every rank", name_of(call.kind),
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

void set_group(Operation& operation, const dabke_options& options) {
  if (options.group == nullptr || options.group_size <= 1) return;
  operation.request->is_group = true;
  operation.make_extras().group = options.group;
  operation.make_extras().group_size = options.group_size;
}

/// The request of a send or a receive; others stay as they are.
Status set_message(Request& request, core::Runtime& runtime, const Call& call, const dabke_options& options) {
  if (!call.message) return {};
  core::Message message = *call.message;
  message.tag = options.tag;
  request.process_set = options.process_set;
  return core::become_message(request, message, runtime.process_sets(), runtime.world().rank);
}

/// Notifies the other ranks, which may have accepted the same call. Returns `why`, this rank's error.
Status refuse(core::Runtime& runtime, const Call& call, const dabke_options& options, Status why) {
  Operation operation;
  Request& request = *operation.request;
  request.kind = call.kind;
  request.process_set = options.process_set;
  for (const char* const name : call.names) {
    if (name == nullptr || *name == '\0') return why;  // other ranks refuse a call without a name, too
    request.tensors.push_back({.name = name});
  }
  request.name = call.names.empty() ? std::string(name_of(call.kind)) : call.names[0];
  set_group(operation, options);
  // There is no other end, or it is not known.
  if (!set_message(request, runtime, call, options).is_ok() || request.root == kAnyRank) return why;
  return runtime.refuse(operation, std::move(why));
}

Result<OperationRef> make_operation(core::Runtime& runtime, const Call& call, const dabke_options& options) {
  auto operation = OperationRef::adopt(new dabke_handle);
  Request& request = *operation->request;
  request.kind = call.kind;
  request.name =
      call.names.empty() || call.names[0] == nullptr ? std::string(name_of(call.kind)) : call.names[0];
  DABKE_RETURN_IF_ERROR(set_tensors(*operation, call));
  DABKE_RETURN_IF_ERROR(set_options(*operation, options));
  DABKE_RETURN_IF_ERROR(set_message(request, runtime, call, options));
  set_group(*operation, options);
  set_functions(*operation, options);
  return operation;
}

}  // namespace

Status check_group(const Call& call) {
  if (!call.is_group) return {};
  if (!call.names.empty() && call.names.data() != nullptr && call.inputs.data() != nullptr) return {};
  return {Code::invalid_argument,
          fmt::format("grouped {}: a group needs at least one name and tensor", name_of(call.kind))};
}

Result<dabke_options> options_of(const Call& call) {
  dabke_options options = DABKE_OPTIONS_INIT;
  DABKE_RETURN_IF_ERROR(read_struct(call.options, options, "dabke_options"));
  return options;
}

Result<OperationRef> make_or_refuse(core::Runtime& runtime, const Call& call, const dabke_options& options) {
  auto operation = make_operation(runtime, call, options);
  if (operation.is_ok()) return operation;
  return refuse(runtime, call, options, operation.status());
}

Status refuse_call(const Call& call, Status why) {
  const auto runtime = current_runtime();
  if (!runtime) return no_runtime();
  DABKE_ASSIGN_OR_RETURN(const dabke_options options, options_of(call));
  (void)refuse(*runtime, call, options, std::move(why));
  return {};
}

}  // namespace dabke

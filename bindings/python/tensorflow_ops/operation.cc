#include "bindings/python/tensorflow_ops/operation.h"

#include <algorithm>
#include <utility>

#include "bindings/python/tensorflow_ops/dtypes.h"

namespace dabke::python::tensorflow {
namespace {

std::size_t size_in_bytes(DLDataType dtype, const std::int64_t* shape, int dimensions) {
  std::size_t size = dtype.bits / 8;
  for (int i = 0; i < dimensions; ++i) size *= static_cast<std::size_t>(shape[i]);
  return size;
}

Tensor allocate_tensor(DLDataType dtype, const std::int64_t* shape, int dimensions) {
  return Tensor(tf().TF_AllocateTensor(tensorflow_of(dtype), shape, dimensions,
                                       size_in_bytes(dtype, shape, dimensions)));
}

}  // namespace

Operation::~Operation() {
  for (const Part& part : parts_) dabke_handle_free(part.handle);
}

// ---- the tensors ----

void Operation::prepare(TF_OpKernelContext* context, int further_inputs, bool outputs_in_context) {
  const bool has_splits = call_.collective == DABKE_ALLTOALL;
  // An input's memory can become an output's only while nobody else refers to it, so outputs come first.
  const std::size_t count =
      static_cast<std::size_t>(tf().TF_NumInputs(context) - further_inputs - 1 - has_splits);
  outputs_.resize(count);
  is_in_context_.assign(count, false);
  if (Failure failure = read_inputs(context, has_splits, further_inputs, inputs_))
    return note(std::move(failure));
  for (const Tensor& each : inputs_.tensors) sources_.emplace_back(each.get());
  if (!call_.keeps_shape()) return;
  for (std::size_t i = 0; i < count && !failure_; ++i) make_output(outputs_in_context ? context : nullptr, i);
}

void Operation::make_output(TF_OpKernelContext* context, std::size_t index) {
  const Described& source = sources_[index];
  const int dimensions = static_cast<int>(source.shape.size());
  if (context == nullptr) {
    outputs_[index] = allocate_tensor(dlpack_of(source.dtype), source.shape.data(), dimensions);
  } else {
    inputs_.tensors[index].reset();  // the executor's own reference is the last one now, if it is
    const TfStatus status;
    const int candidate = static_cast<int>(index);
    int forwarded = -1;
    outputs_[index].reset(tf().TF_ForwardInputOrAllocateOutput(
        context, &candidate, 1, candidate, source.shape.data(), dimensions, &forwarded, status.get()));
    if (!status.is_ok()) return note({DABKE_ERROR_OUT_OF_MEMORY, status.message()});
    is_in_context_[index] = true;
    Failure failure;
    if (forwarded < 0) inputs_.tensors[index] = input_of(context, candidate, failure);
    if (failure) return note(std::move(failure));
  }
  if (!outputs_[index]) {
    return note({DABKE_ERROR_OUT_OF_MEMORY, "'" + inputs_.names[index] + "': no memory for the output"});
  }
  targets_.emplace_back(outputs_[index].get());
}

int Operation::allocate(void* context, std::size_t index, DLTensor* tensor) {
  const Part& part = *static_cast<Part*>(context);
  Tensor made = allocate_tensor(tensor->dtype, tensor->shape, tensor->ndim);
  if (!made) return 1;
  tensor->data = tf().TF_TensorData(made.get());
  part.operation->outputs_[part.first + index] = std::move(made);
  return 0;
}

// ---- to the runtime ----

void Operation::submit(OnEnd on_end) {
  on_end_ = std::move(on_end);
  self_ = shared_from_this();
  pending_ = 1;  // this call's own, so that no part ends the operation before all are submitted
  submit_parts(true);
  end_of_part();
}

void Operation::submit_for_wait() { submit_parts(false); }

void Operation::submit_parts(bool with_callback) {
  if (failure_) return refuse(failure_.text.c_str());
  const std::size_t count = is_group() ? 1 : inputs_.names.size();
  for (std::size_t i = 0; i < count; ++i) parts_.push_back({this, i});
  pending_ += with_callback ? count : 0;
  for (Part& part : parts_) submit_part(part, with_callback);
}

void Operation::submit_part(Part& part, bool with_callback) {
  dabke_options options = call_.options;
  options.splits = inputs_.splits.data();
  options.splits_count = inputs_.splits.size();
  if (!call_.keeps_shape()) {
    options.output_allocator = &Operation::allocate;
    options.output_allocator_context = &part;
  }
  if (with_callback) {
    options.callback = &Operation::on_completion;
    options.callback_context = &part;
  } else {
    options.wait_follows = parts_.size() == 1 ? 1 : 0;
  }
  const dabke_status status =
      is_group() ? submit_group(options, &part.handle) : submit_one(part.first, options, &part.handle);
  if (status == DABKE_OK) return;
  note(last_failure(status));
  if (with_callback) end_of_part();
}

dabke_status Operation::submit_one(std::size_t index, const dabke_options& options, dabke_handle** handle) {
  const char* const name = inputs_.names[index].c_str();
  const DLTensor input = sources_[index].view();
  const DLTensor output = call_.keeps_shape() ? targets_[index].view() : DLTensor{};
  switch (call_.collective) {
    case DABKE_ALLREDUCE: return dabke_allreduce_async(name, &input, &output, &options, handle);
    case DABKE_BROADCAST: return dabke_broadcast_async(name, &input, &output, &options, handle);
    case DABKE_ALLGATHER: return dabke_allgather_async(name, &input, &options, handle);
    case DABKE_ALLTOALL: return dabke_alltoall_async(name, &input, &options, handle);
    default: return dabke_reducescatter_async(name, &input, nullptr, &options, handle);
  }
}

dabke_status Operation::submit_group(const dabke_options& options, dabke_handle** handle) {
  const std::size_t count = inputs_.names.size();
  std::vector<const char*> names;
  std::vector<DLTensor> inputs, outputs;
  std::vector<const DLTensor*> input_pointers, output_pointers;
  for (std::size_t i = 0; i < count; ++i) {
    names.push_back(inputs_.names[i].c_str());
    inputs.push_back(sources_[i].view());
    outputs.push_back(call_.keeps_shape() ? targets_[i].view() : DLTensor{});
  }
  for (std::size_t i = 0; i < count; ++i) {
    input_pointers.push_back(&inputs[i]);
    output_pointers.push_back(&outputs[i]);
  }
  if (call_.collective == DABKE_ALLREDUCE) {
    return dabke_grouped_allreduce_async(names.data(), input_pointers.data(), output_pointers.data(), count,
                                         &options, handle);
  }
  if (call_.collective == DABKE_ALLGATHER)
    return dabke_grouped_allgather_async(names.data(), input_pointers.data(), count, &options, handle);
  return dabke_grouped_reducescatter_async(names.data(), input_pointers.data(), nullptr, count, &options,
                                           handle);
}

/// The other ranks get an error in place of the operation that this rank could not begin.
void Operation::refuse(const char* reason) {
  for (const std::string& name : inputs_.names) {
    (void)dabke_refuse(call_.collective, name.c_str(), &call_.options, reason);
    if (is_group()) break;
  }
}

// ---- the end ----

void Operation::on_completion(void* context, dabke_handle* handle, dabke_status status) {
  Part& part = *static_cast<Part*>(context);
  part.operation->part_ended(part, handle, status);
  part.operation->end_of_part();
}

/// May be called twice for a part, by a callback and by a wait.
void Operation::part_ended(const Part& part, dabke_handle* handle, dabke_status status) {
  if (status != DABKE_OK) return note({status, dabke_handle_message(handle)});
  if (!call_.keeps_shape()) make_empty_outputs(part, handle);
  if (call_.collective != DABKE_ALLTOALL) return;
  const std::int64_t* splits = nullptr;
  std::size_t count = 0;
  if (dabke_handle_received_splits(handle, &splits, &count) != DABKE_OK) return;
  const std::scoped_lock lock(mutex_);
  received_.assign(splits, splits + count);
}

/// Makes the outputs without elements. The runtime asks for no memory for them.
void Operation::make_empty_outputs(const Part& part, const dabke_handle* handle) {
  const std::scoped_lock lock(mutex_);
  if (outputs_.empty()) return;  // delivered already, by a thread that waited
  for (std::size_t i = 0; i < dabke_handle_output_count(handle); ++i) {
    const DLTensor* made = nullptr;
    Tensor& output = outputs_[part.first + i];
    if (output || dabke_handle_output(handle, i, &made) != DABKE_OK) continue;
    output = allocate_tensor(made->dtype, made->shape, made->ndim);
  }
}

void Operation::end_of_part() {
  if (--pending_ != 0) return;
  const std::shared_ptr<Operation> kept = std::move(self_);
  if (on_end_) std::exchange(on_end_, nullptr)(*this);
}

void Operation::note(Failure failure) {
  const std::scoped_lock lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
}

void Operation::wait() {
  for (Part& part : parts_) {
    if (part.handle == nullptr) continue;
    const dabke_status status = dabke_wait(part.handle, -1);
    if (dabke_handle_status(part.handle) == DABKE_IN_PROGRESS) {
      note(last_failure(status));  // a wait that the runtime refuses, such as one in a callback
    } else {
      part_ended(part, part.handle, status);
    }
  }
}

void Operation::deliver(TF_OpKernelContext* context) {
  inputs_.tensors.clear();
  const std::scoped_lock lock(mutex_);
  if (failure_) return report(context, failure_);
  const TfStatus status;
  if (call_.collective == DABKE_ALLTOALL) {
    const auto count = static_cast<std::int64_t>(received_.size());
    outputs_.push_back(allocate_tensor({kDLInt, 32, 1}, &count, 1));
    if (outputs_.back())
      std::ranges::copy(received_, static_cast<std::int32_t*>(tf().TF_TensorData(outputs_.back().get())));
    is_in_context_.push_back(false);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i]) return report(context, {DABKE_ERROR_OUT_OF_MEMORY, "no memory for an output"});
    if (!is_in_context_[i]) tf().TF_SetOutput(context, static_cast<int>(i), outputs_[i].get(), status.get());
    if (!status.is_ok()) return report(context, {DABKE_ERROR_INTERNAL, status.message()});
  }
  outputs_.clear();
}

}  // namespace dabke::python::tensorflow

#include "bindings/python/tensorflow_ops/kernels.h"

#include "bindings/python/tensorflow_ops/operation.h"
#include "bindings/python/tensorflow_ops/ticket.h"

namespace dabke::python::tensorflow {
namespace {

template <dabke_collective kCollective>
void* create(TF_OpKernelConstruction* construction) {
  auto call = std::make_unique<Call>();
  call->collective = kCollective;
  if (const Failure failure = read_attributes(construction, *call)) {
    const TfStatus status;
    tf().TF_SetStatus(status.get(), TF_INTERNAL, failure.text.c_str());
    tf().TF_OpKernelConstruction_Failure(construction, status.get());
  }
  return call.release();
}

void delete_call(void* kernel) { delete static_cast<Call*>(kernel); }

std::shared_ptr<Operation> operation_for(void* kernel) {
  return std::make_shared<Operation>(*static_cast<const Call*>(kernel));
}

void compute_blocking(void* kernel, TF_OpKernelContext* context) {
  const auto operation = operation_for(kernel);
  operation->prepare(context, 0, true);
  operation->submit_for_wait();
  operation->wait();
  operation->deliver(context);
}

/// `done` is a std::function that lies on the caller's stack, and the caller returns before it is called. So
/// it is moved out here. Its layout is that of libstdc++, which TensorFlow's wheels are linked with; ways.py
/// lists the versions that were tested.
void compute_async(void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) {
  std::function<void()> end = std::move(*reinterpret_cast<std::function<void()>*>(done));
  const auto operation = operation_for(kernel);
  operation->prepare(context, 0, true);
  operation->submit([context, end = std::move(end)](Operation& ended) {
    ended.deliver(context);
    end();
  });
}

void compute_submit(void* kernel, TF_OpKernelContext* context) {
  const auto operation = operation_for(kernel);
  operation->prepare(context, 0, false);
  operation->submit(nullptr);
  const Tensor ticket = make_ticket(operation);
  const TfStatus status;
  tf().TF_SetOutput(context, 0, ticket.get(), status.get());
  if (!status.is_ok()) report(context, {DABKE_ERROR_INTERNAL, status.message()});
}

void compute_wait(void*, TF_OpKernelContext* context) {
  Failure failure;
  const Tensor ticket = input_of(context, tf().TF_NumInputs(context) - 1, failure);
  if (failure) return report(context, failure);
  const auto operation = operation_of(ticket.get());
  if (!operation) {
    return report(context,
                  {DABKE_ERROR_INVALID_ARGUMENT, "the ticket of a collective was copied on its way"});
  }
  operation->wait();
  operation->deliver(context);
}

CreateKernel creator_of(dabke_collective collective) {
  switch (collective) {
    case DABKE_ALLREDUCE: return &create<DABKE_ALLREDUCE>;
    case DABKE_ALLGATHER: return &create<DABKE_ALLGATHER>;
    case DABKE_BROADCAST: return &create<DABKE_BROADCAST>;
    case DABKE_ALLTOALL: return &create<DABKE_ALLTOALL>;
    default: return &create<DABKE_REDUCESCATTER>;
  }
}

}  // namespace

void register_kernel(const char* name, dabke_collective collective, Form form, TF_Status* status) {
  const CreateKernel creator = creator_of(collective);
  TF_KernelBuilder* builder = nullptr;
  if (form == Form::asynchronous) {
    builder = tf().TF_NewAsyncKernelBuilder(name, "CPU", creator, &compute_async, &delete_call);
  } else {
    const Compute compute = form == Form::blocking ? &compute_blocking
                            : form == Form::submit ? &compute_submit
                                                   : &compute_wait;
    builder = tf().TF_NewKernelBuilder(name, "CPU", creator, compute, &delete_call);
  }
  tf().TF_RegisterKernelBuilder(name, builder, status);  // which owns the builder
}

}  // namespace dabke::python::tensorflow

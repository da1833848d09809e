#include "bindings/python/tensorflow_ops/failure.h"

#include "bindings/python/tensorflow_ops/owned.h"

namespace dabke::python::tensorflow {
namespace {

/// TensorFlow's code for a status. TF_CANCELLED stands for none, because an executor hides it behind the
/// error of another op; nor does TF_UNAVAILABLE, which a function turns into TF_INTERNAL.
TF_Code code_of(dabke_status status) {
  switch (status) {
    case DABKE_ERROR_INVALID_ARGUMENT:
    case DABKE_ERROR_MISMATCH:
    case DABKE_ERROR_DUPLICATE_NAME:
    case DABKE_ERROR_UNKNOWN_PROCESS_SET: return TF_INVALID_ARGUMENT;
    case DABKE_ERROR_NOT_INITIALIZED:
    case DABKE_ERROR_ALREADY_INITIALIZED:
    case DABKE_ERROR_SHUT_DOWN:
    case DABKE_ERROR_FORKED: return TF_FAILED_PRECONDITION;
    case DABKE_ERROR_PEER_LOST:
    case DABKE_ERROR_TRANSPORT:
    case DABKE_ERROR_ABORTED: return TF_ABORTED;
    case DABKE_ERROR_STALLED:
    case DABKE_ERROR_TIMEOUT: return TF_DEADLINE_EXCEEDED;
    case DABKE_ERROR_NOT_IMPLEMENTED:
    case DABKE_ERROR_NOT_BUILT:
    case DABKE_ERROR_UNSUPPORTED: return TF_UNIMPLEMENTED;
    case DABKE_ERROR_OUT_OF_MEMORY: return TF_RESOURCE_EXHAUSTED;
    default: return TF_INTERNAL;
  }
}

}  // namespace

Failure last_failure(dabke_status status) { return {status, dabke_last_error()}; }

void report(TF_OpKernelContext* context, const Failure& failure) {
  const TfStatus status;
  tf().TF_SetStatus(status.get(), code_of(failure.status), failure.text.c_str());
  tf().TF_SetPayload(status.get(), "dabke.status", dabke_status_name(failure.status));
  tf().TF_SetPayload(status.get(), "dabke.text", failure.text.c_str());
  tf().TF_OpKernelContext_Failure(context, status.get());
}

}  // namespace dabke::python::tensorflow

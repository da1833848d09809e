#include "bindings/python/jax/errors.h"

namespace dabke::python::jax {
namespace {

xla::ErrorCode code_of(dabke_status status) {
  switch (status) {
    case DABKE_ERROR_INVALID_ARGUMENT:
    case DABKE_ERROR_MISMATCH:
    case DABKE_ERROR_DUPLICATE_NAME:
    case DABKE_ERROR_UNKNOWN_PROCESS_SET: return xla::ErrorCode::invalid_argument;
    case DABKE_ERROR_NOT_INITIALIZED: return xla::ErrorCode::failed_precondition;
    case DABKE_ERROR_PEER_LOST:
    case DABKE_ERROR_TRANSPORT: return xla::ErrorCode::unavailable;
    case DABKE_ERROR_SHUT_DOWN:
    case DABKE_ERROR_ABORTED: return xla::ErrorCode::aborted;
    case DABKE_ERROR_STALLED:
    case DABKE_ERROR_TIMEOUT: return xla::ErrorCode::deadline_exceeded;
    case DABKE_ERROR_NOT_IMPLEMENTED:
    case DABKE_ERROR_UNSUPPORTED: return xla::ErrorCode::unimplemented;
    case DABKE_ERROR_OUT_OF_MEMORY: return xla::ErrorCode::resource_exhausted;
    default: return xla::ErrorCode::internal;
  }
}

}  // namespace

std::string marked(dabke_status status, const std::string& text) {
  return std::string("[dabke ") + dabke_status_name(status) + "] " + text;
}

xla::Error* make_error(const xla::Api& api, dabke_status status, const std::string& text) {
  const std::string message = marked(status, text);
  auto arguments = xla::make_arguments<xla::ErrorCreateArguments>();
  arguments.message = message.c_str();
  arguments.code = code_of(status);
  return api.error_create(&arguments);
}

}  // namespace dabke::python::jax

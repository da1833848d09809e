// The handlers that XLA calls, one a collective, and what Python asks about them (dabke/jax/ffi.py loads this
// module).
//
// 1. At registration XLA asks a handler for the version of its API; the answer is the lower of both.
// 2. At each execution the handler submits its operations and returns a future. No thread of XLA waits, but
//    for a small call that is the only one of its program: nothing that other ranks need can then wait for
//    that thread.
// 3. The runtime's completion of the last operation completes the future.
#include <algorithm>
#include <atomic>
#include <string>

#include "bindings/python/jax/call.h"
#include "bindings/python/jax/completion.h"
#include "bindings/python/jax/errors.h"
#include "bindings/python/jax/instances.h"
#include "bindings/python/jax/xla_ffi.h"
#include "dabke/dabke.h"

namespace dabke::python::jax {
namespace {

constexpr int kMajor = 0;
constexpr int kOldestMinor = 1, kNewestMinor = 3;

/// The version that the framework has named last: major * 1000 + minor; -1 before.
std::atomic<int> version_seen{-1};

void note_version(const xla::Api& api) {
  version_seen.store(api.version.major * 1000 + api.version.minor, std::memory_order_relaxed);
}

/// Answers XLA's question at registration. Returns whether the frame was one.
bool answer_metadata(const xla::CallFrame& frame) {
  if (!frame.extensions || frame.extensions->type != xla::kMetadataExtension) return false;
  int minor = kOldestMinor;
  if (frame.api) {  // jaxlib 0.5 asks without it
    note_version(*frame.api);
    minor = std::clamp(frame.api->version.minor, kOldestMinor, kNewestMinor);
  }
  xla::Metadata& metadata = *reinterpret_cast<xla::MetadataExtension*>(frame.extensions)->metadata;
  metadata.version.major = kMajor;
  metadata.version.minor = minor;
  metadata.traits = 0;
  if (minor == kNewestMinor) metadata.state_type = 0;  // its size member does not count this one
  return true;
}

/// The fault of the version of XLA's API; empty when it is right.
std::string wrong_version(const xla::CallFrame& frame) {
  const xla::Api& api = *frame.api;
  if (frame.struct_size >= offsetof(xla::CallFrame, future) && api.version.major == kMajor &&
      api.version.minor >= kOldestMinor) {
    return {};
  }
  return "the FFI of this jaxlib has version " + std::to_string(api.version.major) + "." +
         std::to_string(api.version.minor) + ", dabke.jax needs " + std::to_string(kMajor) + "." +
         std::to_string(kOldestMinor) + " or a later 0.x; install jaxlib 0.5.0 or newer";
}

/// The actions of a handler.
struct Actions {
  /// Submits all operations with the completion's callback.
  void (*submit)(Call& call, Completion& completion);
  /// Runs the call to its end. Null for a collective whose calls on several tensors are several operations.
  dabke_status (*run_group)(Call& call);
  /// The same of a call on one tensor.
  dabke_status (*run_one)(const char*, const DLTensor*, const DLTensor*, const dabke_options*);
};

// The most bytes of a call for which a handler waits. The wait then runs the operation by itself, where ranks
// share memory. That takes up to 20 us. To wake the threads of the runtime and of XLA takes 30 us or more.
constexpr std::size_t kSmallBytes = 131'072;

xla::Error* run_to_end(const xla::Api& api, Call& call, const Actions& actions) {
  const dabke_status status = call.size() == 1 ? actions.run_one(call.names()[0], call.inputs()[0],
                                                                 call.outputs()[0], &call.options())
                                               : actions.run_group(call);
  return status == DABKE_OK ? nullptr : make_error(api, status, dabke_last_error());
}

xla::Error* run(dabke_collective collective, xla::CallFrame* frame, const Actions& actions) {
  if (answer_metadata(*frame)) return nullptr;
  if (frame->stage != xla::Stage::execute) return nullptr;
  const xla::Api& api = *frame->api;
  note_version(api);
  if (const std::string why = wrong_version(*frame); !why.empty())
    return make_error(api, DABKE_ERROR_UNSUPPORTED, why);

  Call call;
  std::string why = call.read(*frame);
  if (why.empty() && call.size()) why = other_instance(*frame, call.names()[0]);
  if (!why.empty()) {
    const std::string text = std::string(dabke_collective_name(collective)) + ": " + why;
    if (call.size()) dabke_refuse(collective, call.names()[0], &call.options(), text.c_str());
    return make_error(api, DABKE_ERROR_INVALID_ARGUMENT, text);
  }
  if (call.size() == 0) return nullptr;

  const bool is_one_operation = call.size() == 1 || actions.run_group;
  if (is_one_operation && call.is_alone() && call.size_bytes() <= kSmallBytes &&
      !Completion::is_on_callback_thread())
    return run_to_end(api, call, actions);

  xla::Error* error = nullptr;
  Completion* const completion = Completion::make(api, is_one_operation ? 1 : call.size(), &error);
  if (!completion) return error;
  frame->future = completion->future();  // before the submit, which may complete and delete it
  call.options().callback = Completion::on_completed;
  call.options().callback_context = completion;
  actions.submit(call, *completion);
  return nullptr;
}

void note_failure(dabke_status status, Completion& completion) {
  if (status != DABKE_OK) completion.fail(status, dabke_last_error());
}

void submit_allreduce(Call& call, Completion& completion) {
  note_failure(call.size() == 1 ? dabke_allreduce_async(call.names()[0], call.inputs()[0], call.outputs()[0],
                                                        &call.options(), nullptr)
                                : dabke_grouped_allreduce_async(call.names(), call.inputs(), call.outputs(),
                                                                call.size(), &call.options(), nullptr),
               completion);
}

void submit_reducescatter(Call& call, Completion& completion) {
  note_failure(call.size() == 1
                   ? dabke_reducescatter_async(call.names()[0], call.inputs()[0], call.outputs()[0],
                                               &call.options(), nullptr)
                   : dabke_grouped_reducescatter_async(call.names(), call.inputs(), call.outputs(),
                                                       call.size(), &call.options(), nullptr),
               completion);
}

/// A function of the C API that takes one input and one output.
using SubmitOne = dabke_status (*)(const char*, const DLTensor*, const DLTensor*, const dabke_options*,
                                   dabke_handle**);

template <SubmitOne submit>
void submit_each(Call& call, Completion& completion) {
  const std::size_t count = call.size();
  for (std::size_t i = 0; i < count; ++i)
    note_failure(submit(call.names()[i], call.inputs()[i], call.outputs()[i], &call.options(), nullptr),
                 completion);
}

dabke_status run_grouped_allreduce(Call& call) {
  return dabke_grouped_allreduce(call.names(), call.inputs(), call.outputs(), call.size(), &call.options());
}
dabke_status run_grouped_reducescatter(Call& call) {
  return dabke_grouped_reducescatter(call.names(), call.inputs(), call.outputs(), call.size(),
                                     &call.options());
}

constexpr Actions kAllreduce = {submit_allreduce, run_grouped_allreduce, dabke_allreduce};
constexpr Actions kReducescatter = {submit_reducescatter, run_grouped_reducescatter, dabke_reducescatter};
constexpr Actions kAllgather = {submit_each<dabke_allgather_into_async>, nullptr, dabke_allgather_into};
constexpr Actions kBroadcast = {submit_each<dabke_broadcast_async>, nullptr, dabke_broadcast};
constexpr Actions kAlltoall = {submit_each<dabke_alltoall_into_async>, nullptr, dabke_alltoall_into};

}  // namespace
}  // namespace dabke::python::jax

extern "C" {

using dabke::python::xla::CallFrame;
using dabke::python::xla::Error;
namespace binding = dabke::python::jax;

DABKE_API Error* dabke_jax_allreduce(CallFrame* frame) {
  return binding::run(DABKE_ALLREDUCE, frame, binding::kAllreduce);
}
DABKE_API Error* dabke_jax_allgather(CallFrame* frame) {
  return binding::run(DABKE_ALLGATHER, frame, binding::kAllgather);
}
DABKE_API Error* dabke_jax_broadcast(CallFrame* frame) {
  return binding::run(DABKE_BROADCAST, frame, binding::kBroadcast);
}
DABKE_API Error* dabke_jax_alltoall(CallFrame* frame) {
  return binding::run(DABKE_ALLTOALL, frame, binding::kAlltoall);
}
DABKE_API Error* dabke_jax_reducescatter(CallFrame* frame) {
  return binding::run(DABKE_REDUCESCATTER, frame, binding::kReducescatter);
}

/// The version of XLA's FFI that the framework has named, as major * 1000 + minor; -1 before
/// it has: jaxlib 0.5 does at the first execution, later ones at registration.
DABKE_API int dabke_jax_api_version(void) { return binding::version_seen; }
}

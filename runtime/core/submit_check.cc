#include "runtime/core/submit_check.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "runtime/call/process_set_list.h"
#include "runtime/call/request_check.h"
#include "runtime/core/batch_builder.h"

namespace dabke {
namespace {

class SubmitCheck {
 public:
  SubmitCheck(Operation& operation, const ProcessSetInfo& set, Lanes& lanes)
      : op_(operation), request_(*operation.request), set_(set), lanes_(lanes) {}

  Status run() {
    DABKE_RETURN_IF_ERROR(check_request(request_, {set_.id, set_.ranks}, op_.extras().splits));
    for (std::size_t i = 0; i < request_.tensors.size(); ++i) {
      DABKE_RETURN_IF_ERROR(check_memory(request_.tensors[i], op_.inputs[i], "input"));
      DABKE_RETURN_IF_ERROR(check_output(i));
      DABKE_RETURN_IF_ERROR(check_backend(request_.tensors[i]));
    }
    return check_stream();
  }

 private:
  Status check_memory(const TensorSpec& tensor, const TensorView& view, std::string_view what) const {
    DABKE_RETURN_IF_ERROR(check_device(tensor, view, what));
    if (view.data == nullptr && view.elements() != 0)
      return bad_request(request_, "the {} of tensor '{}' has no data", what, tensor.name);
    if (reinterpret_cast<std::uintptr_t>(view.data) % alignment_of(view.dtype) != 0) {
      return bad_request(request_, "the {} of tensor '{}' at {} is not aligned to {} bytes, as {} must be",
                         what, tensor.name, view.data, alignment_of(view.dtype), name_of(view.dtype));
    }
    return {};
  }

  /// An operation runs on one device.
  Status check_device(const TensorSpec& tensor, const TensorView& view, std::string_view what) const {
    const Device device = op_.inputs[0].device;
    if (view.device != device) {
      return bad_request(
          request_,
          "the {} of tensor '{}' is on {}, but the operation's first input is on {}; all tensors of an "
          "operation must be on one device",
          what, tensor.name, view.device.to_string(), device.to_string());
    }
    if (device.type == DeviceType::host || (&view != &op_.inputs[0])) return {};
    const Status opened = lanes_.open(device, set_.id);
    if (opened.is_ok()) return {};
    return {opened.code(),
            fmt::format("{} '{}': the {} of tensor '{}' cannot be used: {}", name_of(request_.kind),
                        request_.name, what, tensor.name, opened.message())};
  }

  Status check_stream() const {
    const Operation::Extras& extras = op_.extras();
    if (extras.stream.handle == nullptr && extras.ready_event.handle == nullptr) return {};
    if (!op_.inputs.empty() && op_.inputs[0].device.type != DeviceType::host) return {};
    return bad_request(
        request_,
        "a stream or an event says when tensors on a device are ready, but it has {}, so leave "
        "both NULL, and call when {}",
        op_.inputs.empty() ? "no tensors" : "tensors on the host",
        op_.inputs.empty() ? "this rank has come so far" : "the data is there");
  }

  Status check_output(std::size_t i) {
    const TensorSpec& tensor = request_.tensors[i];
    TensorView& output = op_.outputs[i];
    const TensorView& input = op_.inputs[i];
    if (has_free_rows(request_.kind)) {
      if (op_.extras().gives_outputs) return check_given(tensor, input, output);
      output = TensorView{nullptr, tensor.dtype, input.device,
                          tensor.shape};  // its first dimension is still to come
      return {};
    }
    Shape wanted = tensor.shape;
    const bool scatters = request_.kind == CollectiveKind::reducescatter;
    if (scatters) wanted.set(0, scattered_rows(wanted[0], set_.size(), set_.rank));
    if (output.data == nullptr && (scatters || wanted.elements() != 0)) {
      output = TensorView{scatters ? nullptr : input.data, tensor.dtype, input.device, wanted};
      return {};
    }
    if (output.data == nullptr) output = TensorView{nullptr, tensor.dtype, input.device, wanted};
    if (output.dtype != tensor.dtype || !(output.shape == wanted)) {
      return bad_request(request_, "the output of tensor '{}' is {} {}, but the result is {} {}", tensor.name,
                         name_of(output.dtype), output.shape.to_string(), name_of(tensor.dtype),
                         wanted.to_string());
    }
    DABKE_RETURN_IF_ERROR(check_memory(tensor, output, "output"));
    return check_overlap(tensor, input, output);
  }

  /// An output whose first dimension the ranks only together can tell.
  Status check_given(const TensorSpec& tensor, const TensorView& input, const TensorView& output) const {
    Shape wanted = tensor.shape;
    if (output.shape.rank() != 0) wanted.set(0, output.shape[0]);
    if (output.dtype != tensor.dtype || !(output.shape == wanted)) {
      return bad_request(request_,
                         "the output of tensor '{}' is {} {}, but the input is {} {}; dtype and dimensions "
                         "must be the same, but for the first",
                         tensor.name, name_of(output.dtype), output.shape.to_string(), name_of(tensor.dtype),
                         tensor.shape.to_string());
    }
    DABKE_RETURN_IF_ERROR(check_memory(tensor, output, "output"));
    if (input.data == output.data && input.size_bytes() != 0 && output.size_bytes() != 0) {
      return bad_request(request_,
                         "input and output of tensor '{}' are the same memory; only collectives whose "
                         "results are as long as their inputs work in place",
                         tensor.name);
    }
    return check_overlap(tensor, input, output);
  }

  Status check_overlap(const TensorSpec& tensor, const TensorView& input, const TensorView& output) const {
    const auto* a = static_cast<const std::byte*>(input.data);
    const auto* b = static_cast<const std::byte*>(output.data);
    if (a == b || input.size_bytes() == 0 || output.size_bytes() == 0) return {};
    const std::less<const std::byte*> before;
    if (!before(a, b + output.size_bytes()) || !before(b, a + input.size_bytes())) return {};
    return bad_request(request_, "input and output of tensor '{}' overlap without being the same memory",
                       tensor.name);
  }

  Status check_backend(const TensorSpec& tensor) const {
    const CallSpec call = executed(request_.call_of(tensor), set_.size(), set_);
    if (lanes_.can_run(call)) return {};
    return {Code::unsupported, fmt::format("{} '{}': no backend of this job can run it for {}",
                                           name_of(request_.kind), request_.name, name_of(tensor.dtype))};
  }

  Operation& op_;
  const Request& request_;
  const ProcessSetInfo& set_;
  Lanes& lanes_;
};

/// Outputs whose sizes are known, and that the caller leaves to us. Here, before anybody hears of the
/// operation: a rank that has no memory tells the others with the request, and the operation fails on all of
/// them.
void provide_outputs(Operation& operation, Lanes& lanes) {
  Request& request = *operation.request;
  if (request.kind != CollectiveKind::reducescatter) return;
  for (std::size_t i = 0; i < request.tensors.size() && request.refused.empty(); ++i) {
    const Status provided = operation.provide_output(i, lanes.memory_of(operation.outputs[i].device));
    if (!provided.is_ok()) request.refused = provided.message();
  }
}

/// What the inputs are ready behind. Now, on the caller's thread: what is enqueued on his stream once the call has
/// returned is not meant, and he may have one stream for each thread.
Status note_ready_points(Operation& operation, Lanes& lanes) {
  const ProgramStream stream = operation.extras().stream;
  const ProgramEvent event = operation.extras().ready_event;
  if (stream.handle == nullptr && event.handle == nullptr) return {};
  DeviceStream& device = lanes.stream_of(operation.inputs[0].device);
  auto& ready = operation.make_extras().ready;
  const auto note = [&](Result<std::shared_ptr<DeviceEvent>> point) -> Status {
    if (!point) {
      return {point.status().code(), fmt::format("{} '{}': {}", name_of(operation.request->kind),
                                                 operation.request->name, point.status().message())};
    }
    if (*point != nullptr) ready.push_back(point.take());
    return {};
  };
  if (stream.handle != nullptr) DABKE_RETURN_IF_ERROR(note(device.point_behind(stream)));
  if (event.handle != nullptr) DABKE_RETURN_IF_ERROR(note(device.point_of(event)));
  return {};
}

}  // namespace

Status check_operation(Operation& operation, const ProcessSetTable& sets, Lanes& lanes) {
  const auto set = sets.find(operation.request->process_set);
  if (!set || set->rank < 0) {
    return {Code::unknown_process_set,
            set ? fmt::format("{} '{}': this rank is not in process set {}, which has ranks {}",
                              name_of(operation.request->kind), operation.request->name, set->id,
                              ranks_to_string(set->ranks))
                : fmt::format("{} '{}': process set {} does not exist; dabke_add_process_set makes one",
                              name_of(operation.request->kind), operation.request->name,
                              operation.request->process_set)};
  }
  DABKE_RETURN_IF_ERROR(SubmitCheck(operation, *set, lanes).run());
  provide_outputs(operation, lanes);
  return note_ready_points(operation, lanes);
}

}  // namespace dabke

#include "runtime/core/submit_check.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "runtime/base/bytes.h"
#include "runtime/call/process_set_list.h"
#include "runtime/call/request_check.h"
#include "runtime/lanes/batch_builder.h"

namespace dabke::core {
namespace {

class SubmitCheck {
 public:
  SubmitCheck(Operation& operation, const ProcessSetInfo& set, lanes::Lanes& lanes)
      : op_(operation), request_(*operation.request), set_(set), lanes_(lanes) {}

  Status run() {
    const std::string& group = op_.extras().group;
    if (!group.empty()) DABKE_RETURN_IF_ERROR(check_name(request_.kind, "group's name", group));
    DABKE_RETURN_IF_ERROR(check_request(request_, {set_.id, set_.ranks}, op_.extras().splits));
    for (std::size_t i = 0; i < request_.tensors.size(); ++i) {
      DABKE_RETURN_IF_ERROR(check_memory(request_.tensors[i], op_.inputs[i], "input"));
      DABKE_RETURN_IF_ERROR(check_output(i));
      DABKE_RETURN_IF_ERROR(check_backend(request_.tensors[i]));
    }
    if (request_.tensors.size() > 1) {
      const OperationRef self(&op_);
      DABKE_RETURN_IF_ERROR(check_outputs_apart({&self, 1}));
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

  /// Checks that the view is on the operation's one device. The first input opens the lane of that device.
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
    return {opened.code(), fmt::format("{}: the {} of tensor '{}' cannot be used: {}", name_of_call(request_),
                                       what, tensor.name, opened.message())};
  }

  Status check_stream() const {
    const Operation::Extras& extras = op_.extras();
    if (extras.stream.handle == nullptr && extras.ready_event.handle == nullptr) return {};
    if (!op_.inputs.empty() && op_.inputs[0].device.type != DeviceType::host) return {};
    return bad_request(request_,
                       "a stream or an event is only for tensors on a device, but it has {}: leave both "
                       "NULL, and call when {}",
                       op_.inputs.empty() ? "no tensors" : "tensors on the host",
                       op_.inputs.empty() ? "this rank is ready" : "the data is ready");
  }

  Status check_output(std::size_t i) {
    const TensorSpec& tensor = request_.tensors[i];
    TensorView& output = op_.outputs[i];
    const TensorView& input = op_.inputs[i];
    if (has_free_rows(request_.kind)) {
      if (op_.extras().gives_outputs) return check_given(tensor, input, output);
      output = TensorView{nullptr, tensor.dtype, input.device,
                          tensor.shape};  // the first dimension is not known yet
      return {};
    }
    Shape wanted = tensor.shape;
    const bool is_part = scatters(request_.kind);
    if (is_part) wanted.set(0, lanes::scattered_rows(wanted[0], set_.size(), set_.rank));
    if (output.data == nullptr && (is_part || wanted.elements() != 0)) {
      output = TensorView{is_part ? nullptr : input.data, tensor.dtype, input.device, wanted};
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

  /// Checks an output whose first dimension only all ranks together can determine.
  Status check_given(const TensorSpec& tensor, const TensorView& input, const TensorView& output) const {
    Shape wanted = tensor.shape;
    if (output.shape.rank() != 0) wanted.set(0, output.shape[0]);
    if (output.dtype != tensor.dtype || !(output.shape == wanted)) {
      return bad_request(request_,
                         "the output of tensor '{}' is {} {}, but the input is {} {}; dtype and all "
                         "dimensions but the first must be the same",
                         tensor.name, name_of(output.dtype), output.shape.to_string(), name_of(tensor.dtype),
                         tensor.shape.to_string());
    }
    DABKE_RETURN_IF_ERROR(check_memory(tensor, output, "output"));
    return check_overlap(tensor, input, output);
  }

  /// Accepts the first of the ways to work in place (dabke.h) that fits. The position of this rank's part of
  /// an allgather depends on the other ranks' rows (BatchBuilder).
  Status check_overlap(const TensorSpec& tensor, const TensorView& input, const TensorView& output) const {
    if (!overlap(input, output) || input.data == output.data) return {};
    const std::byte* const in = bytes_of(input.data);
    const std::byte* const out = bytes_of(output.data);
    std::size_t part = 0;
    if (scatters(request_.kind)) {
      std::int64_t rows = 0;
      for (int rank = 0; rank < set_.rank; ++rank)
        rows += lanes::scattered_rows(tensor.shape[0], set_.size(), rank);
      part = to_size(rows * tensor.shape.row_elements()) * size_of(tensor.dtype);
      if (out == in + part) return {};
    }
    if (request_.kind == CollectiveKind::allgather && out <= in &&
        in + input.size_bytes() <= out + output.size_bytes())
      return {};
    return bad_request(
        request_,
        "input and output of tensor '{}' overlap, and the output begins {} bytes {} the input; let it begin "
        "at the input{}, or give it its own memory",
        tensor.name, in < out ? out - in : in - out, in < out ? "after" : "before",
        part != 0 ? fmt::format(" or {} bytes after it, where this rank's part is", part) : "");
  }

  Status check_backend(const TensorSpec& tensor) const {
    const CallSpec call = executed(request_.call_of(tensor), set_.size(), set_);
    if (lanes_.can_run(call)) return {};
    return {Code::unsupported, fmt::format("{}: no backend of this job can run it for {}",
                                           name_of_call(request_), name_of(tensor.dtype))};
  }

  Operation& op_;
  const Request& request_;
  const ProcessSetInfo& set_;
  lanes::Lanes& lanes_;
};

struct MemorySpan {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  const TensorSpec* tensor = nullptr;
};

std::optional<MemorySpan> span_of(const TensorView& view, const TensorSpec& tensor) {
  if (view.data == nullptr || view.size_bytes() == 0) return std::nullopt;
  return MemorySpan{bytes_of(view.data), bytes_of(view.data) + view.size_bytes(), &tensor};
}

/// Provides outputs that have a known size and that the caller leaves to the runtime. This comes before any
/// other rank receives the request: a rank without memory sends that error in its request, and the operation
/// fails on all ranks.
void provide_outputs(Operation& operation, lanes::Lanes& lanes) {
  Request& request = *operation.request;
  if (!scatters(request.kind)) return;
  for (std::size_t i = 0; i < request.tensors.size() && request.refused.is_ok(); ++i) {
    const Status provided = operation.provide_output(i, lanes.memory_of(operation.outputs[i].device));
    if (!provided.is_ok()) request.refused = provided;
  }
}

/// Notes the points after which the inputs are ready. This happens now, on the caller's thread. Work that the
/// caller enqueues on its stream after the call has returned does not count, and each thread may have a
/// stream of its own.
Status note_ready_points(Operation& operation, lanes::Lanes& lanes) {
  const ProgramStream stream = operation.extras().stream;
  const ProgramEvent event = operation.extras().ready_event;
  if (stream.handle == nullptr && event.handle == nullptr) return {};
  DeviceStream& device = lanes.stream_of(operation.inputs[0].device);
  auto& ready = operation.make_extras().ready;
  const auto note = [&](Result<std::shared_ptr<DeviceEvent>> point) -> Status {
    if (!point) {
      return {point.status().code(),
              fmt::format("{}: {}", name_of_call(*operation.request), point.status().message())};
    }
    if (*point != nullptr) ready.push_back(point.take());
    return {};
  };
  if (stream.handle != nullptr) DABKE_RETURN_IF_ERROR(note(device.point_behind(stream)));
  if (event.handle != nullptr) DABKE_RETURN_IF_ERROR(note(device.point_of(event)));
  return {};
}

}  // namespace

Status check_outputs_apart(std::span<const OperationRef> operations) {
  std::vector<MemorySpan> outputs;
  for (const OperationRef& one : operations) {
    for (std::size_t i = 0; i < one->outputs.size(); ++i) {
      if (const auto output = span_of(one->outputs[i], one->request->tensors[i])) outputs.push_back(*output);
    }
  }
  std::ranges::sort(outputs, std::less<>(), &MemorySpan::begin);
  const auto refuse = [&](const TensorSpec& output, const TensorSpec& other) {
    return bad_request(*operations.front()->request,
                       "the output of tensor '{}' overlaps tensor '{}' of the same call or group; give each "
                       "output its own memory",
                       output.name, other.name);
  };
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    if (outputs[i].begin < outputs[i - 1].end) return refuse(*outputs[i - 1].tensor, *outputs[i].tensor);
  }
  for (const OperationRef& one : operations) {
    for (std::size_t i = 0; i < one->inputs.size(); ++i) {
      const auto input = span_of(one->inputs[i], one->request->tensors[i]);
      if (!input) continue;
      auto output = std::ranges::upper_bound(outputs, input->begin, std::less<>(), &MemorySpan::end);
      for (; output != outputs.end() && output->begin < input->end; ++output) {
        if (output->tensor != input->tensor) return refuse(*output->tensor, *input->tensor);
      }
    }
  }
  return {};
}

Status check_operation(Operation& operation, ProcessSetTable& sets, lanes::Lanes& lanes) {
  const ProcessSetId id = operation.request->process_set;
  const bool is_message = operation.request->kind == CollectiveKind::send_recv;
  const auto set = is_message ? sets.find_or_meet(id) : sets.find(id);
  if (!set || set->rank < 0) {
    return {
        Code::unknown_process_set,
        set ? fmt::format("{}: this rank is not in process set {}, which has ranks {}",
                          name_of_call(*operation.request), set->id, ranks_to_string(set->ranks))
            : fmt::format("{}: {}; create a set with dabke_add_process_set", name_of_call(*operation.request),
                          sets.missing(operation.request->process_set).message())};
  }
  DABKE_RETURN_IF_ERROR(SubmitCheck(operation, *set, lanes).run());
  provide_outputs(operation, lanes);
  return note_ready_points(operation, lanes);
}

}  // namespace dabke::core

#include "runtime/core/submit_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include <fmt/format.h>

#include "runtime/call/process_set_list.h"
#include "runtime/core/batch_builder.h"

namespace dabke {
namespace {

class Check {
 public:
  Check(Operation& operation, const ProcessSetInfo& set, Lanes& lanes)
      : op_(operation), request_(*operation.request), set_(set), lanes_(lanes) {}

  Status run() {
    DABKE_RETURN_IF_ERROR(check_request());
    for (std::size_t i = 0; i < request_.tensors.size(); ++i) {
      DABKE_RETURN_IF_ERROR(check_tensor(i));
      DABKE_RETURN_IF_ERROR(check_output(i));
      DABKE_RETURN_IF_ERROR(check_backend(request_.tensors[i]));
    }
    return {};
  }

 private:
  template <class... Args>
  Status bad(fmt::format_string<Args...> format, Args&&... args) const {
    return {Code::invalid_argument, fmt::format("{} '{}': {}", name_of(request_.kind), request_.name,
                                                fmt::format(format, std::forward<Args>(args)...))};
  }

  Status check_request() const {
    if (request_.name.empty())
      return {Code::invalid_argument, fmt::format("{}: the name is empty", name_of(request_.kind))};
    if (moves_data(request_.kind) && request_.tensors.empty()) {
      return bad("the group has no tensors");
    }
    if (request_.op == ReduceOp::adasum && reduces(request_.kind)) {
      return {Code::not_implemented, fmt::format("{} '{}': adasum is not implemented yet; use average or sum",
                                                 name_of(request_.kind), request_.name)};
    }
    if (request_.kind == CollectiveKind::reducescatter && request_.op != ReduceOp::sum &&
        request_.op != ReduceOp::average) {
      return bad("reduce operation {} is not supported here; use sum or average", name_of(request_.op));
    }
    if (request_.kind == CollectiveKind::broadcast &&
        std::ranges::find(set_.ranks, request_.root) == set_.ranks.end()) {
      return bad("root rank {} is not in process set {}, which has ranks {}", request_.root, set_.id,
                 ranks_to_string(set_.ranks));
    }
    return {};
  }

  /// A factor that is infinite or not a number does to floats what arithmetic says, on every rank alike: a
  /// loss scale that overflows is then seen in the results. An integer cannot hold what comes of it.
  Status check_scales(const TensorSpec& tensor) const {
    if (!reduces(request_.kind) || is_floating(tensor.dtype)) return {};
    for (const auto& [factor, what] :
         {std::pair(request_.prescale, "prescale"), {request_.postscale, "postscale"}}) {
      if (std::isfinite(factor)) continue;
      return bad(
          "tensor '{}' is {}, and the {} factor is {}, which no integer can be multiplied by; pass a finite "
          "factor, or the tensor as float32",
          tensor.name, name_of(tensor.dtype), what, factor);
    }
    return {};
  }

  Status check_tensor(std::size_t i) const {
    const TensorSpec& tensor = request_.tensors[i];
    const TensorView& input = op_.inputs[i];
    DABKE_RETURN_IF_ERROR(check_memory(tensor, input, "input"));
    DABKE_RETURN_IF_ERROR(check_scales(tensor));
    if (tensor.dtype == DType::b8 && reduces(request_.kind) && request_.op == ReduceOp::average) {
      return bad("tensor '{}' is bool, which has no average; use sum (or), product (and), min or max",
                 tensor.name);
    }
    if (divides_rows(request_.kind) && tensor.shape.rank() == 0) {
      return bad("tensor '{}' is a scalar; it needs at least one dimension", tensor.name);
    }
    return request_.kind == CollectiveKind::alltoall ? check_splits(tensor) : Status::ok();
  }

  Status check_memory(const TensorSpec& tensor, const TensorView& view, std::string_view what) const {
    DABKE_RETURN_IF_ERROR(check_device(tensor, view, what));
    if (view.data == nullptr && view.elements() != 0)
      return bad("the {} of tensor '{}' has no data", what, tensor.name);
    if (reinterpret_cast<std::uintptr_t>(view.data) % size_of(view.dtype) != 0) {
      return bad("the {} of tensor '{}' at {} is not aligned to its {}-byte elements", what, tensor.name,
                 view.data, size_of(view.dtype));
    }
    return {};
  }

  /// An operation runs on one device.
  Status check_device(const TensorSpec& tensor, const TensorView& view, std::string_view what) const {
    const Device device = op_.inputs[0].device;
    if (view.device != device) {
      return bad(
          "the {} of tensor '{}' is on {}, but the operation's first input is on {}; all tensors of an "
          "operation "
          "must be on one device",
          what, tensor.name, view.device.to_string(), device.to_string());
    }
    if (device.type == DeviceType::host || (&view != &op_.inputs[0])) return {};
    const Status opened = lanes_.open(device, set_.id);
    if (opened.is_ok()) return {};
    return {opened.code(),
            fmt::format("{} '{}': the {} of tensor '{}' cannot be used: {}", name_of(request_.kind),
                        request_.name, what, tensor.name, opened.message())};
  }

  Status check_splits(const TensorSpec& tensor) const {
    const std::int64_t rows = tensor.shape[0];
    const auto& splits = op_.extras().splits;
    if (splits.empty()) {
      if (rows % set_.size() == 0) return {};
      return bad("{} rows cannot be divided evenly among {} ranks; pass splits", rows, set_.size());
    }
    if (splits.size() != static_cast<std::size_t>(set_.size())) {
      return bad("{} splits were given for {} ranks; there must be one for each", splits.size(), set_.size());
    }
    std::int64_t total = 0;
    for (const std::int64_t split : splits) {
      if (split < 0 || split > rows) return bad("split {} is not between 0 and the {} rows", split, rows);
      total += split;
    }
    return total == rows ? Status::ok() : bad("the splits add up to {}, but there are {} rows", total, rows);
  }

  Status check_output(std::size_t i) {
    const TensorSpec& tensor = request_.tensors[i];
    TensorView& output = op_.outputs[i];
    const TensorView& input = op_.inputs[i];
    if (has_free_rows(request_.kind)) {
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
      return bad("the output of tensor '{}' is {} {}, but the result is {} {}", tensor.name,
                 name_of(output.dtype), output.shape.to_string(), name_of(tensor.dtype), wanted.to_string());
    }
    DABKE_RETURN_IF_ERROR(check_memory(tensor, output, "output"));
    return check_overlap(tensor, input, output);
  }

  Status check_overlap(const TensorSpec& tensor, const TensorView& input, const TensorView& output) const {
    const auto* a = static_cast<const std::byte*>(input.data);
    const auto* b = static_cast<const std::byte*>(output.data);
    if (a == b || input.size_bytes() == 0 || output.size_bytes() == 0) return {};
    const std::less<const std::byte*> before;
    if (!before(a, b + output.size_bytes()) || !before(b, a + input.size_bytes())) return {};
    return bad("input and output of tensor '{}' overlap without being the same memory", tensor.name);
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
  DABKE_RETURN_IF_ERROR(Check(operation, *set, lanes).run());
  provide_outputs(operation, lanes);
  return {};
}

}  // namespace dabke

#include "runtime/call/request_check.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "runtime/base/text/utf8.h"
#include "runtime/call/process_set_list.h"

namespace dabke {
namespace {

/// "sum, min, max": the reduce operations that the dtype has.
std::string ops_of(DType dtype) {
  std::string ops;
  for (const ReduceOp op : kReduceOps) {
    if (op == ReduceOp::adasum || !is_defined(op, dtype)) continue;
    ops += fmt::format("{}{}", ops.empty() ? "" : ", ", name_of(op));
  }
  return ops;
}

class RequestCheck {
 public:
  RequestCheck(const Request& request, const AskedIn& in, std::span<const std::int64_t> splits)
      : request_(request), in_(in), splits_(splits) {}

  Status run() const {
    DABKE_RETURN_IF_ERROR(check_call());
    for (const TensorSpec& tensor : request_.tensors) DABKE_RETURN_IF_ERROR(check_tensor(tensor));
    return {};
  }

 private:
  Status check_call() const {
    DABKE_RETURN_IF_ERROR(check_name(request_.kind, "name", request_.name));
    if (moves_data(request_.kind) && request_.tensors.empty())
      return bad_request(request_, "the group has no tensors");
    if (request_.op == ReduceOp::adasum && reduces(request_.kind)) {
      return {Code::not_implemented,
              fmt::format("{}: adasum is not implemented yet; use average or sum", name_of_call(request_))};
    }
    if (has_root(request_.kind) && !is_from_any(request_) &&
        std::ranges::find(in_.ranks, request_.root) == in_.ranks.end()) {
      return bad_request(request_, "root rank {} is not in process set {}, which has ranks {}", request_.root,
                         in_.set, ranks_to_string(in_.ranks));
    }
    return {};
  }

  Status check_tensor(const TensorSpec& tensor) const {
    if (tensor.name != request_.name) DABKE_RETURN_IF_ERROR(check_name(request_.kind, "name", tensor.name));
    DABKE_RETURN_IF_ERROR(check_scales(tensor));
    if (reduces(request_.kind) && !is_defined(request_.op, tensor.dtype)) {
      return bad_request(request_, "tensor '{}' is {}, which has no {}; use one of {}", tensor.name,
                         name_of(tensor.dtype), name_of(request_.op), ops_of(tensor.dtype));
    }
    if (divides_rows(request_.kind) && tensor.shape.rank() == 0) {
      return bad_request(request_, "tensor '{}' is a scalar; it needs at least one dimension", tensor.name);
    }
    return request_.kind == CollectiveKind::alltoall ? check_splits(tensor) : Status::ok();
  }

  /// On floats, a factor that is infinite or not a number follows the rules of arithmetic, equally on every
  /// rank. A loss scale that overflows is then visible in the results. An integer cannot hold such a result.
  Status check_scales(const TensorSpec& tensor) const {
    if (!reduces(request_.kind) || is_floating(tensor.dtype)) return {};
    for (const auto& [factor, what] :
         {std::pair(request_.prescale, "prescale"), {request_.postscale, "postscale"}}) {
      if (std::isfinite(factor)) continue;
      return bad_request(request_,
                         "tensor '{}' is {} and the {} factor is {}, but integers need a finite factor; pass "
                         "one, or the tensor as float32",
                         tensor.name, name_of(tensor.dtype), what, factor);
    }
    return {};
  }

  Status check_splits(const TensorSpec& tensor) const {
    const std::int64_t rows = tensor.shape[0];
    if (splits_.empty()) {
      if (rows % static_cast<std::int64_t>(in_.ranks.size()) == 0) return {};
      return bad_request(request_, "{} rows cannot be divided evenly among {} ranks; pass splits", rows,
                         in_.ranks.size());
    }
    if (splits_.size() != in_.ranks.size()) {
      return bad_request(request_, "{} splits were given for {} ranks; pass one for each", splits_.size(),
                         in_.ranks.size());
    }
    std::int64_t total = 0;
    for (const std::int64_t split : splits_) {
      if (split < 0 || split > rows)
        return bad_request(request_, "split {} is not between 0 and the {} rows", split, rows);
      if (__builtin_add_overflow(total, split, &total))
        return bad_request(request_, "the splits add up to more than 2^63 - 1, but there are {} rows", rows);
    }
    return total == rows
               ? Status::ok()
               : bad_request(request_, "the splits add up to {}, but there are {} rows", total, rows);
  }

  const Request& request_;
  const AskedIn& in_;
  std::span<const std::int64_t> splits_;
};

}  // namespace

Status check_name(CollectiveKind kind, std::string_view what, std::string_view name) {
  if (name.empty()) return {Code::invalid_argument, fmt::format("{}: the {} is empty", name_of(kind), what)};
  if (name.size() > kMostNameBytes) {
    constexpr std::size_t kShown = 40;
    return {Code::invalid_argument,
            fmt::format("{}: the {} that begins with '{}' has {} bytes; a name has at most {}", name_of(kind),
                        what, escaped_utf8(name.substr(0, kShown)), name.size(), kMostNameBytes)};
  }
  if (!is_utf8(name)) {
    return {Code::invalid_argument, fmt::format("{}: the {} '{}' is not UTF-8; pass one that is",
                                                name_of(kind), what, escaped_utf8(name))};
  }
  return {};
}

Status check_request(const Request& request, const AskedIn& in, std::span<const std::int64_t> splits) {
  return RequestCheck(request, in, splits).run();
}

}  // namespace dabke

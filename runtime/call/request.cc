#include "runtime/call/request.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dabke {
namespace {

bool same_shape(CollectiveKind kind, const Shape& a, const Shape& b) {
  if (!has_free_rows(kind)) return a == b;
  return a.rank() == b.rank() &&
         std::ranges::equal(a.dims().subspan(a.rank() ? 1 : 0), b.dims().subspan(b.rank() ? 1 : 0));
}

std::string_view tensors_difference(const Request& a, const Request& b) {
  if (a.tensors.size() != b.tensors.size()) return "group size";
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const TensorSpec& x = a.tensors[i];
    const TensorSpec& y = b.tensors[i];
    if (x.name != y.name) return "group members";
    if (x.dtype != y.dtype) return "dtype";
    if (!same_shape(a.kind, x.shape, y.shape)) return "shape";
  }
  return {};
}

}  // namespace

std::size_t Request::size_bytes() const {
  std::size_t total = 0;
  for (const TensorSpec& tensor : tensors) total += tensor.size_bytes();
  return total;
}

CallSpec Request::call_of(const TensorSpec& tensor) const {
  CallSpec call = *this;
  call.dtype = tensor.dtype;
  return call;
}

std::string Request::describe() const {
  using Where = FieldText::Where;
  std::string out(name_of(kind));
  out += dabke::describe(*this, Where::before_tensors);
  if (adds_set(kind) || is_among_members(kind)) out += fmt::format(" of ranks {}", fmt::join(ranks, ", "));
  if (kind == CollectiveKind::remove_process_set) out += fmt::format(" {}", fmt::join(ranks, ", "));
  if (tensors.size() > 1) out += fmt::format(", group of {}:", tensors.size());
  if (tensors.size() == 1) out += " of";
  constexpr std::size_t kShown = 4;
  for (std::size_t i = 0; i < std::min(tensors.size(), kShown); ++i) {
    const TensorSpec& tensor = tensors[i];
    if (tensors.size() > 1) out += fmt::format("{} '{}'", i ? "," : "", tensor.name);
    out += fmt::format(" {} {}", name_of(tensor.dtype), tensor.shape.to_string());
  }
  if (tensors.size() > kShown) out += ", ...";
  return out + dabke::describe(*this, Where::after_tensors);
}

std::string difference(const Request& a, const Request& b) {
  if (a.kind != b.kind) return "operation";
  if (const auto what = tensors_difference(a, b); !what.empty()) return std::string(what);
  if (const auto what = difference(static_cast<const CallSpec&>(a), b); !what.empty())
    return std::string(what);
  if (a.ranks != b.ranks) return "process set";
  if (!(a.refused == b.refused)) return "readiness";
  return {};
}

bool agree(const Request& a, const Request& b) {
  return static_cast<const CallSpec&>(a) == b && tensors_difference(a, b).empty() && a.ranks == b.ranks &&
         a.refused == b.refused;
}

}  // namespace dabke

#include "runtime/negotiation/request.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dabke {
namespace {

bool first_dimension_is_free(CollectiveKind kind) {
  return kind == CollectiveKind::allgather || kind == CollectiveKind::alltoall;
}

bool same_shape(CollectiveKind kind, const Shape& a, const Shape& b) {
  if (!first_dimension_is_free(kind)) return a == b;
  return a.rank() == b.rank() &&
         std::ranges::equal(a.dims().subspan(a.rank() ? 1 : 0), b.dims().subspan(b.rank() ? 1 : 0));
}

std::string tensors_difference(const Request& a, const Request& b) {
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

bool same_scale(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::size_t Request::size_bytes() const {
  std::size_t total = 0;
  for (const TensorSpec& tensor : tensors) total += tensor.size_bytes();
  return total;
}

std::string Request::describe() const {
  std::string out(name_of(kind));
  if (reduces(kind)) out += fmt::format(" ({})", name_of(op));
  if (kind == CollectiveKind::broadcast) out += fmt::format(" from rank {}", root);
  if (kind == CollectiveKind::add_process_set) out += fmt::format(" of ranks {}", fmt::join(ranks, ", "));
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
  if (prescale != 1) out += fmt::format(", prescale {}", prescale);
  if (postscale != 1) out += fmt::format(", postscale {}", postscale);
  if (device != DeviceType::host) out += " on cuda";
  if (compression != 0)
    out += fmt::format(", compression {}", name_of(static_cast<Compression>(compression)));
  return out;
}

std::string difference(const Request& a, const Request& b) {
  if (a.kind != b.kind) return "operation";
  if (auto what = tensors_difference(a, b); !what.empty()) return what;
  if (a.device != b.device) return "device";
  if (reduces(a.kind) && a.op != b.op) return "reduce operation";
  if (reduces(a.kind) && !(same_scale(a.prescale, b.prescale) && same_scale(a.postscale, b.postscale)))
    return "scale factor";
  if (a.kind == CollectiveKind::broadcast && a.root != b.root) return "root rank";
  if (a.compression != b.compression) return "compression";
  if (a.ranks != b.ranks) return "process set";
  if (a.refused != b.refused) return "readiness";
  return {};
}

}  // namespace dabke

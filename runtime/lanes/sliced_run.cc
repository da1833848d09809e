#include "runtime/lanes/sliced_run.h"

#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/settings/fusion_settings.h"

namespace dabke::lanes {

Status SlicedRun::begin(DeviceStream& stream) {
  // Only integers are widened: device backends add 16-bit floats by themselves.
  const bool is_wide = needs_wide_sums(batch_) && !is_floating(batch_.dtype);
  if (is_wide) DABKE_RETURN_IF_ERROR(gather_wide(stream));
  sums_.emplace(is_wide ? wide_ : batch_, hosts_);
  slices_.emplace(batch_, *sums_);
  before_ = sums_->before();
  after_ = slices_->after();
  return {};
}

Status SlicedRun::gather_wide(DeviceStream& stream) {
  wide_ = part_of(batch_, batch_.kind, *batch_.process_set);
  wide_.dtype = kernels::wide_dtype(batch_.dtype);
  const auto bytes_of_wide = [&](const BatchEntry& entry) {
    return fusion_padded(to_size(entry.elements) * size_of(wide_.dtype));
  };
  std::size_t bytes = 0;
  for (const BatchEntry& entry : batch_.entries) bytes += bytes_of_wide(entry);
  DABKE_ASSIGN_OR_RETURN(std::byte * next, memory_.reserve(bytes));
  std::vector<ElementCopy> pieces;
  for (const BatchEntry& entry : batch_.entries) {
    if (entry.elements != 0) pieces.push_back({next, entry.input, to_size(entry.elements)});
    wide_.entries.push_back({next, next, entry.elements, {}, {}});
    next += bytes_of_wide(entry);
  }
  return stream.copy(pieces, wide_.dtype, batch_.dtype, batch_.prescale);
}

Status SlicedRun::round_once(DeviceStream& stream) const {
  if (wide_.entries.empty()) return {};
  std::vector<ElementCopy> pieces;
  for (std::size_t e = 0; e < batch_.entries.size(); ++e) {
    const std::size_t elements = to_size(sums_->own_count(e));
    if (elements != 0) pieces.push_back({slices_->own_output(e), sums_->own_output(e), elements});
  }
  return stream.copy(pieces, batch_.dtype, wide_.dtype, batch_.result_scale());
}

}  // namespace dabke::lanes

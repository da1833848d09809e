#include "runtime/lanes/staged_batch.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "runtime/backend/sliced_batch.h"
#include "runtime/base/bytes.h"

namespace dabke::lanes {
namespace {

std::int64_t output_elements(const Batch& batch, const BatchEntry& entry) {
  if (!divides_rows(batch.kind)) return entry.elements;
  if (reduces(batch.kind)) return entry.receive_counts[static_cast<std::size_t>(batch.process_set->rank)];
  return std::accumulate(entry.receive_counts.begin(), entry.receive_counts.end(), std::int64_t{0});
}

}  // namespace

Status StagedBatch::copy_to_host(Batch what, Run& run, DeviceStream& stream) {
  batch_ = std::move(what);
  batch_.device_type = DeviceType::host;
  batch_.device_index = 0;
  batch_.stream = nullptr;
  const std::size_t width = size_of(batch_.dtype);
  const auto make = [&](std::size_t bytes) -> Result<void*> {
    DeviceBuffer memory = allocate_from(stream.host_memory(), bytes);
    if (memory == nullptr) DABKE_RETURN_IF_ERROR(stream.host_memory()->state());
    if (memory == nullptr)
      return Status(Code::out_of_memory, fmt::format("no host memory for a copy of {} bytes", bytes));
    return run.scratch.emplace_back(std::move(memory)).get();
  };
  for (BatchEntry& entry : batch_.entries) {
    const std::size_t in_bytes = to_size(entry.elements) * width;
    const std::size_t out_bytes = to_size(output_elements(batch_, entry)) * width;
    DABKE_ASSIGN_OR_RETURN(void* const output, make(std::max(in_bytes, out_bytes)));
    void* input = output;
    if (entry.input != entry.output) {
      DABKE_ASSIGN_OR_RETURN(input, make(in_bytes));
    }
    if (in_bytes != 0) DABKE_RETURN_IF_ERROR(stream.copy_to_host(input, entry.input, in_bytes));
    if (out_bytes != 0) outputs_.push_back({entry.output, output, out_bytes});
    entry.input = input;
    entry.output = output;
  }
  return {};
}

Status StagedBatch::copy_on_device(const Run& run, DeviceStream& stream, FusionBuffer& memory) {
  const Batch& batch = run.batch;
  is_on_device_ = true;
  batch_ = part_of(batch, batch.kind, *batch.process_set);
  batch_.device_route = DeviceRoute::direct;
  batch_.root = batch.root;
  batch_.postscale = batch.postscale;
  batch_.divisor = batch.divisor;
  DABKE_ASSIGN_OR_RETURN(std::byte* const into, memory.reserve(input_bytes(run)));
  const std::size_t width = size_of(batch.dtype);
  const bool brings = !has_root(batch.kind) || batch.root == batch.process_set->rank;
  std::vector<ElementCopy> pieces;
  std::size_t elements = 0;
  for (const BatchEntry& entry : batch.entries) {
    const std::size_t count = to_size(entry.elements);
    if (count == 0) continue;
    std::byte* const copy = into + elements * width;
    pieces.push_back({copy, entry.input, count});
    outputs_.push_back({entry.output, copy, count * width});
    elements += count;
  }
  if (elements != 0) batch_.entries.push_back({into, into, static_cast<std::int64_t>(elements), {}, {}});
  if (!brings || pieces.empty()) return {};
  return stream.copy(pieces, batch.dtype, batch.dtype, batch.prescale);
}

Status StagedBatch::copy_back(DeviceStream& stream) const {
  if (is_on_device_) {
    std::vector<ElementCopy> pieces;
    for (const auto& [tensor, copy, bytes] : outputs_)
      pieces.push_back({tensor, copy, bytes / size_of(batch_.dtype)});
    return pieces.empty() ? Status() : stream.copy(pieces, batch_.dtype, batch_.dtype, 1);
  }
  for (const auto& [tensor, copy, bytes] : outputs_)
    DABKE_RETURN_IF_ERROR(stream.copy_from_host(tensor, copy, bytes));
  return {};
}

}  // namespace dabke::lanes

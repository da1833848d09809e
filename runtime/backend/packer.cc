#include "runtime/backend/packer.h"

#include <numeric>

#include "runtime/base/bytes.h"
#include "runtime/kernels/kernels.h"

namespace dabke {
namespace {

/// True if the collective reads from one place and writes to another.
bool has_send(CollectiveKind kind) { return scatters(kind) || kind == CollectiveKind::alltoall; }

/// True if the output begins in the input's memory. An output that overlaps its input always begins in it
/// (BatchEntry).
bool overlaps_output(const Batch& batch, const BatchEntry& entry) {
  const std::size_t bytes = to_size(entry.elements) * size_of(batch.dtype);
  return entry.input == entry.output || overlap(entry.input, bytes, entry.output, 1);
}

}  // namespace

Result<PackedBatch> Packer::pack(const Batch& batch, DType as) {
  packed_ = {.dtype = as};
  in_.clear();
  out_.clear();
  count(batch);
  DABKE_RETURN_IF_ERROR(place(batch));
  DABKE_RETURN_IF_ERROR(list_pieces(batch));

  const timeline::ActivityScope activity(through_buffer_ ? batch.trace : timeline::BatchTrace(),
                                         timeline::Record::What::pack);
  const double factor = reduces(batch.kind) ? batch.prescale : 1;
  DABKE_RETURN_IF_ERROR(stream_->copy(in_, packed_.dtype, batch.dtype, factor));
  return packed_;
}

Status Packer::unpack(const Batch& batch, const kernels::Scale& scale) {
  const timeline::ActivityScope activity(through_buffer_ ? batch.trace : timeline::BatchTrace(),
                                         timeline::Record::What::unpack);
  const kernels::Scale by = reduces(batch.kind) ? scale : kernels::Scale();
  if (by.is_one() && !converts(batch))
    std::erase_if(out_, [](const ElementCopy& piece) { return piece.to == piece.from; });
  return stream_->copy(out_, batch.dtype, packed_.dtype, by);
}

/// Counts the elements that go to and come from each rank, over all entries.
void Packer::count(const Batch& batch) {
  const auto ranks = to_size(batch.process_set->size());
  send_counts_.assign(ranks, 0);
  receive_counts_.assign(ranks, 0);
  for (const BatchEntry& entry : batch.entries) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (!divides_rows(batch.kind)) continue;
      const std::size_t received = to_size(entry.receive_counts[rank]);
      (scatters(batch.kind) ? send_counts_ : receive_counts_)[rank] += received;
      if (batch.kind == CollectiveKind::alltoall) send_counts_[rank] += to_size(entry.send_counts[rank]);
    }
  }
  packed_.send_counts = send_counts_;
  packed_.receive_counts = receive_counts_;
  packed_.send_elements = std::accumulate(send_counts_.begin(), send_counts_.end(), std::size_t{0});
  packed_.elements = std::accumulate(receive_counts_.begin(), receive_counts_.end(), std::size_t{0});
  if (scatters(batch.kind)) {
    packed_.elements = send_counts_[to_size(batch.process_set->rank)];
  }
}

std::size_t Packer::bytes_for(const Batch& batch, DType as) {
  packed_ = {.dtype = as};
  count(batch);
  const BufferUse places = use_of(batch);
  return places.send_bytes + places.data_bytes;
}

Packer::BufferUse Packer::use_of(const Batch& batch) {
  const std::size_t width = size_of(packed_.dtype);
  const bool is_alone = is_in_place(batch);
  if (is_whole(batch.kind)) {
    for (const BatchEntry& entry : batch.entries) {
      const std::size_t bytes = to_size(entry.elements) * width;
      packed_.elements += (is_alone ? bytes : fusion_padded(bytes)) / width;
    }
  }
  const BatchEntry* const entry = is_alone ? &batch.entries.front() : nullptr;
  const bool sends_input = has_send(batch.kind) && is_alone && !overlaps_output(batch, *entry) &&
                           (!scatters(batch.kind) || batch.prescale == 1);
  return {.sends_input = sends_input,
          .send_bytes = sends_input ? 0 : fusion_padded(packed_.send_elements * width),
          .data_bytes = is_alone ? 0 : packed_.elements * width};
}

/// Chooses where `send` and `data` are: in the tensors of a lone entry, else in the fusion buffer.
Status Packer::place(const Batch& batch) {
  const BufferUse places = use_of(batch);
  through_buffer_ = places.send_bytes + places.data_bytes != 0;
  std::byte* memory = nullptr;
  if (through_buffer_) {
    DABKE_ASSIGN_OR_RETURN(memory, buffer_.reserve(places.send_bytes + places.data_bytes));
  }
  send_ = places.sends_input ? nullptr : memory;
  if (has_send(batch.kind))
    packed_.send = places.sends_input ? bytes_of(batch.entries.front().input) : memory;
  packed_.data = is_in_place(batch) ? bytes_of(batch.entries.front().output) : memory + places.send_bytes;
  return Status::ok();
}

Status Packer::list_pieces(const Batch& batch) {
  if (is_whole(batch.kind)) return list_whole_entries(batch);
  list_blocks_in(batch);
  list_blocks_out(batch);
  return {};
}

Status Packer::list_whole_entries(const Batch& batch) {
  const std::size_t width = size_of(packed_.dtype);
  const bool has_input = reduces(batch.kind) || batch.process_set->rank == batch.root;
  std::size_t offset = 0;
  for (const BatchEntry& entry : batch.entries) {
    const std::size_t elements = to_size(entry.elements);
    const std::size_t end = offset + elements * width;
    const bool stays = entry.input == packed_.data + offset && (batch.prescale == 1 || !reduces(batch.kind));
    if (has_input && !stays && elements != 0) in_.push_back({packed_.data + offset, entry.input, elements});
    if (elements != 0) out_.push_back({entry.output, packed_.data + offset, elements});
    offset = end;
    if (!is_in_place(batch)) {
      // The padding travels and is reduced with the rest, so it must have a defined value.
      offset = fusion_padded(end);
      if (offset != end) DABKE_RETURN_IF_ERROR(stream_->clear(packed_.data + end, offset - end));
    }
  }
  return {};
}

/// Lists this rank's pieces: into its own block (allgather), or into one block for each rank.
void Packer::list_blocks_in(const Batch& batch) {
  const std::size_t width = size_of(batch.dtype);
  const std::size_t packed_width = size_of(packed_.dtype);
  if (has_send(batch.kind) && send_ == nullptr) return;  // the input itself is sent
  const auto own = to_size(batch.process_set->rank);
  const bool gathers = batch.kind == CollectiveKind::allgather;
  std::byte* const into = gathers ? packed_.data : send_;
  std::size_t offset = 0;
  for (std::size_t rank = 0; rank < send_counts_.size(); ++rank) {
    if (gathers && rank != own) {
      offset += receive_counts_[rank] * packed_width;
      continue;
    }
    for (const BatchEntry& entry : batch.entries) {
      const auto counts = scatters(batch.kind) ? entry.receive_counts : entry.send_counts;
      const std::size_t elements = gathers ? to_size(entry.elements) : to_size(counts[rank]);
      std::size_t skipped = 0;
      for (std::size_t before = 0; !gathers && before < rank; ++before)
        skipped += to_size(counts[before]) * width;
      const std::byte* const input = elements == 0 ? nullptr : bytes_of(entry.input) + skipped;
      const bool stays = gathers && input == packed_.data + offset;
      if (elements != 0 && !stays) in_.push_back({into + offset, input, elements});
      offset += elements * packed_width;
    }
  }
}

/// Lists the pieces of the result: a block of each rank (allgather, alltoall), or this rank's scattered sum.
void Packer::list_blocks_out(const Batch& batch) {
  const std::size_t width = size_of(batch.dtype);
  std::size_t offset = 0;
  if (scatters(batch.kind)) {
    const auto own = to_size(batch.process_set->rank);
    for (const BatchEntry& entry : batch.entries) {
      const std::size_t elements = to_size(entry.receive_counts[own]);
      if (elements != 0) out_.push_back({entry.output, packed_.data + offset, elements});
      offset += elements * size_of(packed_.dtype);
    }
    return;
  }
  if (is_in_place(batch)) return;  // the collective has already written to the output
  for (std::size_t rank = 0; rank < receive_counts_.size(); ++rank) {
    for (const BatchEntry& entry : batch.entries) {
      const std::size_t elements = to_size(entry.receive_counts[rank]);
      std::size_t skipped = 0;
      for (std::size_t before = 0; before < rank; ++before)
        skipped += to_size(entry.receive_counts[before]) * width;
      if (elements != 0) out_.push_back({bytes_of(entry.output) + skipped, packed_.data + offset, elements});
      offset += elements * width;
    }
  }
}

Status run_alone(const Batch& batch, DeviceStream& stream) {
  for (const BatchEntry& entry : batch.entries) {
    const auto elements = to_size(entry.elements);
    const ElementCopy in{entry.output, entry.input, elements};
    const ElementCopy out{entry.output, entry.output, elements};
    const bool is_scaled = reduces(batch.kind);
    DABKE_RETURN_IF_ERROR(stream.copy({&in, 1}, batch.dtype, batch.dtype, is_scaled ? batch.prescale : 1));
    if (is_scaled && !batch.result_scale().is_one())
      DABKE_RETURN_IF_ERROR(stream.copy({&out, 1}, batch.dtype, batch.dtype, batch.result_scale()));
  }
  return {};
}

}  // namespace dabke

// A batch as one contiguous piece of memory, for backends whose collectives take one. Scaling happens inside
// the copies.
//
// The memory that a collective works on. Each rank has a block, in set order. A block holds the pieces of all
// entries, one behind the other. All counts are in elements.
//   allreduce, broadcast   `data`: the entries one behind the other, each padded with fusion_padded; in place
//   allgather              `data`: one block per rank (`receive_counts`), this rank's already filled in;
//                          in place
//   scattered sums         `send`: one block per receiving rank (`send_counts`)
//                          `data`: this rank's sum
//   alltoall               `send`: one block per receiving rank (`send_counts`)
//                          `data`: one block per sending rank (`receive_counts`)
//
// A batch of one entry is not copied. The collective works on the entry's output, and on its input where the
// collective has a `send`. A batch that is wanted in another dtype is always copied: the packed data has that
// dtype, and the scaling converts it back to the batch's own.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/fusion_buffer.h"

namespace dabke {

struct PackedBatch {
  DType dtype = DType::f32;         // of the packed data
  const std::byte* send = nullptr;  // only for alltoall and scattered sums; never overlaps `data`
  std::byte* data = nullptr;        // may be null if it has no elements
  std::size_t send_elements = 0;
  std::size_t elements = 0;  // elements of `data`
  std::span<const std::size_t> send_counts;
  std::span<const std::size_t> receive_counts;
};

/// Packs and unpacks one batch at a time, and keeps its memory for the next. Not thread-safe. On a device all
/// work is only enqueued, and the next batch may be packed before the previous one has ended.
class Packer {
 public:
  /// `stream` outlives the packer.
  explicit Packer(DeviceStream& stream = host_stream()) : stream_(&stream), buffer_(stream) {}

  /// Copies the inputs, multiplied by the batch's prescale, to the place where the collective reads them. The
  /// result is valid until the next pack(). Returns code out_of_memory if there is no memory for the buffer.
  ///   as  the dtype of the packed data: the batch's own. For a reduction it may also be the wide dtype of
  ///       the batch's or, for float32, a dtype of 16 bits.
  Result<PackedBatch> pack(const Batch& batch, DType as);
  Result<PackedBatch> pack(const Batch& batch) { return pack(batch, batch.dtype); }
  /// Copies the collective's result to the outputs. `scale` is the batch's scale, or one if the collective
  /// has scaled already. `batch` is the one given to pack().
  Status unpack(const Batch& batch, const kernels::Scale& scale);
  Status unpack(const Batch& batch) { return unpack(batch, batch.result_scale()); }
  /// Packs and unpacks on this stream from now on. It is a stream of the same device.
  void work_on(DeviceStream& stream) {
    stream_ = &stream;
    buffer_.work_on(stream);
  }
  /// Returns the bytes of the buffer that pack() would need.
  std::size_t bytes_for(const Batch& batch, DType as);
  bool has_room_for(const Batch& batch, DType as) { return bytes_for(batch, as) <= buffer_.capacity(); }
  /// Makes room for `bytes` bytes, if there is memory. Errors are ignored here; pack() reports them.
  void make_room(std::size_t bytes) { (void)buffer_.reserve(bytes); }
  /// Uses a buffer of another owner from now on.
  void borrow(std::byte* memory, std::size_t bytes) { buffer_.borrow(memory, bytes); }
  /// Bytes that the packer keeps.
  std::size_t held_bytes() const { return buffer_.capacity(); }
  /// Gives the buffer back.
  void drop() { buffer_.drop(); }

 private:
  bool converts(const Batch& batch) const { return packed_.dtype != batch.dtype; }
  /// True if the collective works on the tensors themselves.
  bool is_in_place(const Batch& batch) const { return batch.entries.size() == 1 && !converts(batch); }
  /// Bytes of the buffer that `send` and `data` use.
  struct BufferUse {
    bool sends_input = false;
    std::size_t send_bytes = 0;
    std::size_t data_bytes = 0;
  };
  void count(const Batch& batch);
  BufferUse use_of(const Batch& batch);
  Status place(const Batch& batch);
  Status list_pieces(const Batch& batch);
  Status list_whole_entries(const Batch& batch);
  void list_blocks_in(const Batch& batch);
  void list_blocks_out(const Batch& batch);

  DeviceStream* stream_;
  FusionBuffer buffer_;
  PackedBatch packed_;
  std::byte* send_ = nullptr;  // packed_.send, if it is in memory that the packer writes
  bool through_buffer_ = false;
  std::vector<std::size_t> send_counts_;
  std::vector<std::size_t> receive_counts_;
  // Stretches that are contiguous both in a tensor and in the packed data.
  std::vector<ElementCopy> in_;   // to packed_.send, or to packed_.data if there is no send
  std::vector<ElementCopy> out_;  // from packed_.data
};

/// Runs any collective in a process set of one rank: the outputs become the scaled inputs.
Status run_alone(const Batch& batch, DeviceStream& stream = host_stream());

}  // namespace dabke

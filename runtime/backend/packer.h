// A batch as one contiguous piece of memory, for backends whose collectives take one. Scaling happens inside
// the copies.
//
// What a collective works on, in elements; every rank's blocks are in set order, and a block holds the pieces
// of all entries one behind the other:
//   allreduce, broadcast   `data`, the entries one behind the other, each padded with fusion_padded; in place
//   allgather              `data`, one block a rank (`receive_counts`), this rank's already filled in; in
//                          place
//   scattered sums         `send`, one block for each rank that it goes to (`send_counts`); this rank's sum
//                          into `data`
//   alltoall               `send`, one block for each rank that it goes to (`send_counts`); `data`, one for
//                          each that it came from (`receive_counts`)
// A batch of one entry is not copied: the collective works on its output, and on its input where it has a
// `send`. Unless it is wanted in another dtype: then all that is packed has that, and becomes the batch's own again
// as it is scaled.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/fusion_buffer.h"

namespace dabke {

struct PackedBatch {
  DType dtype = DType::f32;         // what is packed has it
  const std::byte* send = nullptr;  // alltoall and what is scattered only; never overlaps `data`
  std::byte* data = nullptr;        // may be null when it has no elements
  std::size_t send_elements = 0;
  std::size_t elements = 0;  // those of `data`
  std::span<const std::size_t> send_counts;
  std::span<const std::size_t> receive_counts;
};

/// Packs and unpacks one batch at a time, and keeps its memory for the next. Not thread-safe. On a device all is
/// enqueued, and the next batch may be packed before the one before it has ended.
class Packer {
 public:
  /// `stream` outlives it.
  explicit Packer(DeviceStream& stream = host_stream()) : stream_(&stream), buffer_(stream) {}

  /// Copies the inputs, multiplied by the batch's prescale, to where the collective wants them. The result is
  /// valid until the next pack(). Code out_of_memory when the buffer cannot be had.
  ///   as  what is packed has it; of a reduction also the dtype's wide one, or of float32 one of 16 bits
  Result<PackedBatch> pack(const Batch& batch, DType as);
  Result<PackedBatch> pack(const Batch& batch) { return pack(batch, batch.dtype); }
  /// Copies what the collective made of it to the outputs, scaled as the batch says or, where the collective
  /// has done that, by one. The batch is pack()'s.
  Status unpack(const Batch& batch, const kernels::Scale& scale);
  Status unpack(const Batch& batch) { return unpack(batch, batch.result_scale()); }
  /// Packs and unpacks there from now on, on a stream of the same device.
  void work_on(DeviceStream& stream) {
    stream_ = &stream;
    buffer_.work_on(stream);
  }
  /// How many bytes of the buffer pack() would need, and whether it has them.
  std::size_t bytes_for(const Batch& batch, DType as);
  bool has_room_for(const Batch& batch, DType as) { return bytes_for(batch, as) <= buffer_.capacity(); }
  /// Has at least so many from now on, if there are so many; for whoever wants the error, pack() tells it.
  void make_room(std::size_t bytes) { (void)buffer_.reserve(bytes); }
  /// The buffer is somebody else's from now on.
  void borrow(std::byte* memory, std::size_t bytes) { buffer_.borrow(memory, bytes); }
  /// The bytes that it keeps.
  std::size_t held_bytes() const { return buffer_.capacity(); }
  /// Gives the buffer back.
  void drop() { buffer_.drop(); }

 private:
  bool converts(const Batch& batch) const { return packed_.dtype != batch.dtype; }
  /// Whether the collective works on the tensors themselves.
  bool is_in_place(const Batch& batch) const { return batch.entries.size() == 1 && !converts(batch); }
  /// What of the buffer is `send`, and what `data`.
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
  std::byte* send_ = nullptr;  // packed_.send where that is ours to write
  bool through_buffer_ = false;
  std::vector<std::size_t> send_counts_;
  std::vector<std::size_t> receive_counts_;
  // What is contiguous in a tensor and in what is packed.
  std::vector<ElementCopy> in_;   // to packed_.send, or to packed_.data where there is no send
  std::vector<ElementCopy> out_;  // from packed_.data
};

/// What any collective does in a process set of one rank: outputs become the scaled inputs.
Status run_alone(const Batch& batch, DeviceStream& stream = host_stream());

}  // namespace dabke

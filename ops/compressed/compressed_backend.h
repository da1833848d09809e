// Allreduces of float32 whose elements travel between hosts as float16 or bfloat16, over the backends that
// run between hosts.
//
//   1. Every rank multiplies its elements by the prescale and rounds them to 16 bits.
//   2. The elements are cut into one slice for each rank. An alltoall gives each rank its slice from all
//      ranks.
//   3. Each rank reduces its slice in float32, in the order of the ranks, multiplies it by the postscale and
//      rounds it to 16 bits again.
//   4. An allgather distributes the slices. Every rank, the owner of a slice too, turns the 16 bits back into
//      float32.
// If the batch is small, step 2 gives all elements to every rank, and step 4 is left out. In both cases each
// element is rounded twice, on its own rank and after the sum, whatever its position. All ranks have the same
// bits.
#pragma once

#include <memory>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/backend_runner.h"
#include "runtime/backend/packer.h"

namespace dabke::ops {

class CompressedBackend final : public Backend {
 public:
  /// `world` outlives the backend. `carriers`, in order of preference, move the rounded elements; null
  /// pointers are left out.
  CompressedBackend(const World& world, std::vector<Backend*> carriers)
      : world_(world), carriers_(std::move(carriers), BackendRunner::ErrorPrefix::backend) {}

  std::string_view name() const override { return "compressed"; }
  bool can_run(const CallSpec& call, const Extent& extent) const override;
  /// True for sets of more than one host.
  bool can_serve(const ProcessSetInfo& set) const override;
  Status prepare(const ProcessSetInfo&, Device) override { return {}; }
  void run(const Batch& batch, Completion done) override { done(run_batch(batch)); }
  void release(ProcessSetId set, Device) override { carriers_.release(set); }
  void idle() override;
  void abort(const Status& cause) override { carriers_.abort(cause); }

 private:
  Status run_batch(const Batch& batch);
  Status exchange_all(const Batch& batch, float* data, std::size_t elements);
  Status exchange_slices(const Batch& batch, float* data, std::size_t elements);
  /// Reduces the rounded elements of all ranks into `into`, rounded. `rounded` holds `elements` of each rank,
  /// one rank behind the other.
  Status reduce(const Batch& batch, const std::byte* rounded, std::size_t elements, std::byte* into);
  Status carry(const Batch& batch, CollectiveKind kind, BatchEntry entry);

  const World& world_;
  BackendRunner carriers_;
  Packer packer_;
  FusionBuffer wire_;  // the 16-bit elements
  FusionBuffer sums_;  // the received elements, in float32
};

/// Returns null if there is no other rank.
Result<std::unique_ptr<Backend>> open_compressed_backend(const BackendContext& context,
                                                         std::vector<Backend*> carriers);

}  // namespace dabke::ops

// float32 allreduces whose elements travel between hosts as float16 or bfloat16, over the backends that are
// there.
//
//   1. Every rank rounds its elements, multiplied by the prescale, to 16 bits.
//   2. They are cut into a slice for each rank, and each gets its slice from all: an alltoall.
//   3. It reduces them in float32, in the order of the ranks, multiplies by the postscale and rounds to 16
//      bits again.
//   4. An allgather of the slices; every rank, the owner of a slice too, turns the 16 bits back into float32.
// Where that is little, step 2 gives everything to everybody, and step 4 is left out. Either way each element
// has been rounded on its own rank and once more after the sum, wherever it lay, and all ranks have the same
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
  /// `world` outlives it. `carriers`, in order of preference, move what was rounded; null ones are left out.
  CompressedBackend(const World& world, std::vector<Backend*> carriers)
      : world_(world), carriers_(std::move(carriers), BackendRunner::ErrorPrefix::backend) {}

  std::string_view name() const override { return "compressed"; }
  bool can_run(const CallSpec& call, const Extent& extent) const override;
  /// Sets of more than one host.
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
  /// `rounded` holds `elements` of each rank, one behind the other; leaves their sum, rounded, in `into`.
  Status reduce(const Batch& batch, const std::byte* rounded, std::size_t elements, std::byte* into);
  Status carry(const Batch& batch, CollectiveKind kind, BatchEntry entry);

  const World& world_;
  BackendRunner carriers_;
  Packer packer_;
  FusionBuffer wire_;  // what travels
  FusionBuffer sums_;  // what came, in float32
};

/// Null when there is no other rank.
Result<std::unique_ptr<Backend>> open_compressed_backend(const BackendContext& context,
                                                         std::vector<Backend*> carriers);

}  // namespace dabke::ops

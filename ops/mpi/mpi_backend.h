// MPI as a backend: one communicator for each process set, made when the set is prepared.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <mutex>

#include "ops/mpi/mpi_collectives.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/packer.h"
#include "runtime/base/threads/abort_latch.h"

namespace dabke::ops {

class MpiBackend final : public Backend {
 public:
  /// `session` must have joined, and its threads may call MPI.
  MpiBackend(const BackendContext& context, modules::MpiSession& session,
             std::size_t round_bytes = kMpiRoundBytes);
  ~MpiBackend() override;

  std::string_view name() const override { return "mpi"; }
  bool can_run(const CallSpec& call, const Extent& extent) const override;
  /// An allreduce is not copied into a fusion buffer, so no tensor gains from running alone.
  BatchSizes batch_sizes() const override { return {.alone = std::numeric_limits<std::uint32_t>::max()}; }
  Status prepare(const ProcessSetInfo& set, Device device) override;
  void run(const Batch& batch, Completion done) override { done(run_batch(batch)); }
  void release(ProcessSetId set, Device device) override;
  void idle() override;
  void abort(const Status& cause) override { aborted_.abort(cause); }

 private:
  Status run_batch(const Batch& batch);
  Status run_on(const Batch& batch, modules::MpiCommunicator& comm);
  static Status run_on_device(const Batch& batch, const MpiRun& run);
  Status run_packed(const Batch& batch, const PackedBatch& packed, const MpiRun& run);

  const BackendContext context_;
  modules::MpiSession& session_;
  const std::size_t round_bytes_;
  std::mutex mutex_;  // guards all members but the latch, in case lanes share the backend
  std::map<ProcessSetId, std::unique_ptr<modules::MpiCommunicator>> comms_;
  Packer packer_;
  std::unique_ptr<MpiStaging> staging_;
  AbortLatch aborted_;
};

/// Opens the backend of this job. An error states why MPI cannot be used, and the remedy.
Result<std::unique_ptr<Backend>> open_mpi_backend(const BackendContext& context);

/// True if MPI may be given pointers to the memory of CUDA devices. DABKE_MPI_CUDA_AWARE decides; without it,
/// MPI's own answer.
bool mpi_takes_device_memory(const BackendContext& context);

}  // namespace dabke::ops

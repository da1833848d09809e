// Small messages between hosts, over our own authenticated links. Large messages are left to other backends.
//
// The links of a process set are opened when it first runs a batch here, which is at the same point of the
// order on all its ranks. A run that fails closes them, which ends the waits of the other ranks.
#pragma once

#include <map>
#include <memory>

#include "ops/tcp/tcp_mesh.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/packer.h"

namespace dabke::ops {

class TcpBackend final : public Backend {
 public:
  /// The largest batch. Above it, sending everything to each partner costs more than fewer steps save. There
  /// is no limit between two ranks, which cannot send less than everything.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;

  TcpBackend(const BackendContext& context, std::unique_ptr<TcpInterrupt> interrupt)
      : context_(context), interrupt_(std::move(interrupt)) {}

  std::string_view name() const override { return "tcp"; }
  bool can_run(const CallSpec& call, const Extent& extent) const override;
  Status prepare(const ProcessSetInfo& set, Device device) override;
  void run(const Batch& batch, Completion done) override { done(run_batch(batch)); }
  void release(ProcessSetId set, Device) override { meshes_.erase(set); }
  void idle() override;
  void abort(const Status& cause) override { interrupt_->abort(cause); }

 private:
  Status run_batch(const Batch& batch);
  Status run_over(TcpMesh& mesh, const Batch& batch);

  const BackendContext context_;
  std::unique_ptr<TcpInterrupt> interrupt_;
  std::map<ProcessSetId, std::unique_ptr<TcpMesh>> meshes_;
  // How often a set of this id and these ranks was made; equal on all its ranks.
  std::map<std::string, std::uint64_t> incarnations_;
  Packer packer_;
  FusionBuffer scratch_;
};

/// Returns null if there is no other rank.
Result<std::unique_ptr<Backend>> open_tcp_backend(const BackendContext& context);

}  // namespace dabke::ops

// Small messages between hosts, over our own authenticated links; what is large is left to other backends.
//
// The links of a process set are opened when it first runs something here, which is at the same point of the
// order on all its ranks. A run that fails closes them, which tells those that wait for this rank.
#pragma once

#include <map>
#include <memory>

#include "ops/tcp/tcp_mesh.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/packer.h"

namespace dabke::ops {

class TcpBackend final : public Backend {
 public:
  /// Above it, sending everything to each partner costs more than what fewer steps save. Not so with a single
  /// partner: two ranks cannot send less than everything, so there is no limit.
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
  // How often a set of this id and these ranks was made; its ranks count alike.
  std::map<std::string, std::uint64_t> incarnations_;
  Packer packer_;
  FusionBuffer scratch_;
};

/// Null when there is no other rank.
Result<std::unique_ptr<Backend>> open_tcp_backend(const BackendContext& context);

}  // namespace dabke::ops

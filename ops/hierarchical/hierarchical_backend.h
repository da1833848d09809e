// Runs process sets of several hosts of which some have more than one rank. The data moves through shared
// memory inside a host, and between hosts through the backends that would run the set otherwise. This backend
// owns none of them; all are backends of the same job.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "ops/hierarchical/hierarchical_collectives.h"
#include "runtime/backend/backend_runner.h"

namespace dabke::ops {

class HierarchicalBackend final : public Backend {
 public:
  /// `leaders` is the result of gather_leaders(). `parts` are the backends inside the hosts and between them,
  /// in order of preference.
  HierarchicalBackend(std::vector<Rank> leaders, std::vector<Backend*> parts)
      : leaders_(std::move(leaders)), parts_(std::move(parts), BackendRunner::ErrorPrefix::backend) {}

  std::string_view name() const override { return "hierarchical"; }
  bool can_run(const CallSpec& call, const Extent& extent) const override;
  bool can_serve(const ProcessSetInfo& set) const override;
  Status prepare(const ProcessSetInfo& set, Device device) override;
  void run(const Batch& batch, Completion done) override;
  void release(ProcessSetId set, Device device) override;
  void idle() override {
    scratch_.drop();
    wide_.drop();
  }
  void abort(const Status& cause) override { parts_.abort(cause); }

 private:
  const std::vector<Rank> leaders_;
  BackendRunner parts_;
  std::map<ProcessSetId, HostedSet> sets_;
  FusionBuffer scratch_;
  FusionBuffer wide_;
};

/// Returns null if there is only one host, or if no host has more than one rank. Collective. `parts` outlive
/// the backend. The first is the backend inside the hosts, null on a rank that shares memory with no other.
/// The backends between the hosts follow.
Result<std::unique_ptr<Backend>> open_hierarchical_backend(const BackendContext& context,
                                                           std::vector<Backend*> parts);

}  // namespace dabke::ops

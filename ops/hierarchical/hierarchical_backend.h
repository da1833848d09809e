// Process sets of several hosts with more than one rank on some: through shared memory inside a host, and
// between hosts by the backends that would run the set otherwise. It owns none of them; all are backends of
// the same job.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "ops/hierarchical/hierarchical_collectives.h"

namespace dabke {

class HierarchicalBackend final : public Collective {
 public:
  /// `leaders`: as gather_leaders has them. `inside` is null on a rank that shares memory with no other.
  /// `between` in order of preference.
  HierarchicalBackend(std::vector<Rank> leaders, Collective* inside, std::vector<Collective*> between)
      : leaders_(std::move(leaders)), inside_(inside), between_(std::move(between)) {}

  std::string_view name() const override { return "hierarchical"; }
  bool can_run(const ResponseKind& kind) const override;
  bool can_serve(const ProcessSetInfo& set) const override;
  Status prepare(const ProcessSetInfo& set) override;
  void run(const Batch& batch, Completion done) override;
  void release(ProcessSetId set) override;
  void idle() override { scratch_.drop(); }
  void abort(const Status& cause) override;

 private:
  Status run_part(const Batch& part);
  Result<Collective*> backend_for(const Batch& part) const;

  const std::vector<Rank> leaders_;
  Collective* const inside_;
  const std::vector<Collective*> between_;
  std::map<ProcessSetId, std::unique_ptr<HostedSet>> sets_;
  std::set<std::pair<Collective*, ProcessSetId>> prepared_;
  FusionBuffer scratch_;
};

/// Null where no host has more than one rank, or there is only one. Collective. `inside` and `between`
/// outlive it.
Result<std::unique_ptr<Collective>> open_hierarchical_backend(const BackendContext& context,
                                                              Collective* inside,
                                                              std::vector<Collective*> between);

}  // namespace dabke

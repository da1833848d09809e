// Gloo: all collectives between processes without shared memory, with no MPI and no server.
//
// A device (one thread of Gloo's) is made with the first collective that needs one. Each algorithm has a
// context of its own in each process set, connected when it first runs: runs are in the same order on all
// ranks, so that is an agreed point. Waits inside Gloo have no time limit; they end by data, by a lost
// connection, or because the watchdog shuts the context's sockets down.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ops/gloo/gloo_algorithms.h"
#include "ops/gloo/gloo_context.h"
#include "ops/gloo/gloo_device.h"
#include "ops/gloo/watchdog.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/packer.h"

namespace dabke::ops {

class GlooBackend final : public Backend {
 public:
  explicit GlooBackend(const BackendContext& context);
  ~GlooBackend() override;

  std::string_view name() const override { return "gloo"; }
  bool can_run(const CallSpec& call, const Extent& extent) const override;
  BatchSizes batch_sizes() const override;
  Status prepare(const ProcessSetInfo& set, Device device) override;
  void run(const Batch& batch, Completion done) override { done(run_batch(batch)); }
  void release(ProcessSetId set, Device device) override;
  void idle() override;
  void abort(const Status& cause) override { watchdog_.abort(cause); }

 private:
  struct Set {
    std::uint64_t incarnation = 0;
    std::uint64_t members = 0;  // hash of its ranks
    std::uint64_t runs = 0;
    std::map<GlooAlgorithm, std::unique_ptr<GlooContext>> contexts;
    bool is_over = false;  // its connections are closed
    Status ended;          // after a run that was done just before the watchdog ended the connections
  };

  Set& open_set(const ProcessSetInfo& set);
  Status open_device();
  Result<GlooContext*> open_context(const Batch& batch, Set& set, GlooAlgorithm algorithm);
  static Watchdog::Note note_of(const Batch& batch, const Set& set);
  /// Whether the neighbour waits in another batch, as far as it has said.
  Status compare_notes(const Watchdog::Note& own) const;
  Status run_batch(const Batch& batch);
  std::string name_of_peer(int set_rank) const;
  Status find_loss(GlooContext& context) const;
  Status name_broken(GlooContext& context, const Status& status) const;
  Status run_packed(const Batch& batch, const PackedBatch& packed, Set& set, kernels::Scale& unscaled);
  Status run_algorithm(const Batch& batch, const PackedBatch& packed, GlooAlgorithm algorithm,
                       GlooContext& context);

  const BackendContext context_;
  std::mutex mutex_;  // guards all but the watchdog, in case lanes share the backend
  std::unique_ptr<GlooDevice> device_;
  std::map<ProcessSetId, Set> sets_;  // their contexts need the device
  // How often a set of this id and these ranks was made. The ranks count alike, because they all were in
  // every one of them.
  std::map<std::pair<ProcessSetId, std::uint64_t>, std::uint64_t> incarnations_;
  Packer packer_;
  FusionBuffer scratch_;
  std::vector<Rank> running_;  // the ranks of the set whose run the watchdog looks at
  Watchdog watchdog_;          // ends before what it watches
};

Result<std::unique_ptr<Backend>> open_gloo_backend(const BackendContext& context);

}  // namespace dabke::ops

// Gloo runs all collectives between processes without shared memory, with neither MPI nor a server.
//
// A device (one thread of Gloo's) is made with the first collective that needs one. Each algorithm has its
// own context in each process set, connected when the algorithm first runs. All ranks have their runs in the
// same order, so that is an agreed point. Waits inside Gloo have no time limit. A wait ends when its data
// arrives, when a connection is lost, or when the watchdog shuts the context's sockets down.
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
    Status ended;          // set after a run that finished just before the watchdog ended the connections
  };

  Set& open_set(const ProcessSetInfo& set);
  Status open_device();
  Result<GlooContext*> open_context(const Batch& batch, Set& set, GlooAlgorithm algorithm);
  static Watchdog::Note note_of(const Batch& batch, const Set& set);
  /// Returns an error if the neighbour's note shows that it waits in another batch.
  Status compare_notes(const Watchdog::Note& own) const;
  Status run_batch(const Batch& batch);
  std::string name_of_peer(int set_rank) const;
  Status find_loss(GlooContext& context) const;
  Status name_broken(GlooContext& context, const Status& status) const;
  Status run_packed(const Batch& batch, const PackedBatch& packed, Set& set, kernels::Scale& unscaled);
  Status run_algorithm(const Batch& batch, const PackedBatch& packed, GlooAlgorithm algorithm,
                       GlooContext& context);

  const BackendContext context_;
  std::mutex mutex_;  // guards all members but the watchdog, in case lanes share the backend
  std::unique_ptr<GlooDevice> device_;
  std::map<ProcessSetId, Set> sets_;  // their contexts need the device
  // How often a set of this id and these ranks was made. All these ranks were members each time, so their
  // counts are equal.
  std::map<std::pair<ProcessSetId, std::uint64_t>, std::uint64_t> incarnations_;
  Packer packer_;
  FusionBuffer scratch_;
  std::vector<Rank> running_;  // the ranks of the set whose run the watchdog watches
  Watchdog watchdog_;          // destroyed before the members that it watches
};

Result<std::unique_ptr<Backend>> open_gloo_backend(const BackendContext& context);

}  // namespace dabke::ops

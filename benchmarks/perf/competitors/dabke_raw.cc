#include "benchmarks/perf/competitors/dabke_raw.h"

#include <optional>

#include "ops/registry.h"
#include "runtime/backend/backend_runner.h"

namespace dabke::perf {
namespace {

CallSpec asked(const Call& call) { return {.kind = call.kind, .dtype = call.dtype, .op = call.op}; }

class RawBackend final : public Competitor {
 public:
  RawBackend(const std::string& name, const Config& config, const World& world)
      : name_("dabke " + name), config_(config) {
    const auto dash = name.find('-');  // "shm-streaming": the second part names the stores
    config_.cpu_operations = name.substr(0, dash);
    if (dash != std::string::npos)
      config_.shm_stores = name.substr(dash + 1) == "plain" ? StorePolicy::plain : StorePolicy::streaming;
    world_.rank = world.rank;
    for (Rank rank = 0; rank < world.size; ++rank) world_.ranks.push_back(rank);
  }

  Status open(const bootstrap::Bootstrapped& place, ForkGuard& fork_guard, shm::SharedHeap& heap) {
    // Each backend has its own prefix in the store, because several may make connections of the same kind.
    const auto store = store::with_prefix(place.store, "perf/" + name_);
    const BackendContext context{place.world, config_, store, fork_guard, Log(), place.mpi, &heap};
    DABKE_ASSIGN_OR_RETURN(backends_, ops::make_host_backends(context));
    runner_.emplace(backends_);
    return {};
  }

  std::string name() const override { return name_; }
  bool can_run(const Call& call) const override { return runner_->find(asked(call), {}, world_) != nullptr; }
  Status begin(const Call& call) override {
    counts_.assign(static_cast<std::size_t>(call.ranks), call.part());
    const std::uint64_t order = batch_.order;
    batch_ = Batch{{asked(call)}};
    batch_.order = order;
    batch_.process_set = &world_;
    if (call.kind == CollectiveKind::barrier) return choose();
    BatchEntry entry{.input = call.input, .output = call.output, .elements = call.elements};
    if (divides_rows(call.kind)) entry.receive_counts = counts_;
    if (call.kind == CollectiveKind::alltoall) entry.send_counts = counts_;
    batch_.entries.push_back(entry);
    return choose();
  }
  Status run() override {
    ++batch_.order;
    return runner_->run_on(*backend_, batch_);
  }
  // After this, its threads and memory do not disturb the next competitor.
  void end() override {
    if (backend_ != nullptr) backend_->idle();
  }

 private:
  /// Chooses as the runtime does: the named backend may leave some sizes to another.
  Status choose() {
    DABKE_ASSIGN_OR_RETURN(backend_, runner_->choose(batch_));
    return {};
  }

  const std::string name_;
  Config config_;
  ProcessSetInfo world_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::optional<BackendRunner> runner_;
  Backend* backend_ = nullptr;
  std::vector<std::int64_t> counts_;
  Batch batch_;
};

}  // namespace

Result<std::unique_ptr<Competitor>> open_raw_backend(const std::string& backend, const Config& config,
                                                     const bootstrap::Bootstrapped& place,
                                                     ForkGuard& fork_guard, shm::SharedHeap& heap) {
  auto opened = std::make_unique<RawBackend>(backend, config, place.world);
  DABKE_RETURN_IF_ERROR(opened->open(place, fork_guard, heap));
  return std::unique_ptr<Competitor>(std::move(opened));
}

}  // namespace dabke::perf

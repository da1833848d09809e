#include "benchmarks/perf/jobs/rank.h"

#include <cstdlib>

#include <fmt/format.h>

#include "benchmarks/perf/competitors/dabke_api.h"
#include "benchmarks/perf/competitors/dabke_raw.h"
#include "benchmarks/perf/competitors/memory_bounds.h"
#include "benchmarks/perf/competitors/raw_gloo.h"
#include "benchmarks/perf/competitors/raw_mpi.h"
#include "benchmarks/perf/jobs/places.h"
#include "benchmarks/perf/measure/measure.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/modules/module_loader.h"

namespace dabke::perf {
namespace {

constexpr std::string_view kModulePrefix = "mpi-";

/// "mpich" or "openmpi"; empty if MPI has not started this process.
std::string mpi_of_job() {
  if (std::getenv("DABKE_RANK") != nullptr || std::getenv("HOROVOD_RANK") != nullptr) return {};
  const std::string_view module = modules::find_mpi(process_environment()).launcher;
  return std::string(module.substr(module.empty() ? 0 : kModulePrefix.size()));
}

/// MPI, started before its first use and ended after the last.
class MpiUse {
 public:
  MpiUse() = default;
  ~MpiUse() {
    if (peer_ != nullptr) peer_->finish();
  }
  MpiUse(const MpiUse&) = delete;
  MpiUse& operator=(const MpiUse&) = delete;
  Status start(const std::string& mpi, bool any_thread) {
    DABKE_ASSIGN_OR_RETURN(MpiPeer* const peer, load_mpi_peer(mpi));
    DABKE_RETURN_IF_ERROR(peer->start(any_thread));
    peer_ = peer;
    return {};
  }
  MpiPeer* peer() const { return peer_; }

 private:
  MpiPeer* peer_ = nullptr;
};

/// The common arguments of all competitors.
struct Ground {
  const Options& options;
  const Config& config;
  const bootstrap::Bootstrapped& place;
  ForkGuard& fork_guard;
  shm::SharedHeap& heap;
  MpiPeer* mpi;
  const std::string& mpi_name;
};

void note(const Ground& ground, const std::string& text) {
  if (ground.place.world.rank == 0) fmt::print(stderr, "dabke-perf: {}\n", text);
}

Status add_competitors(const Ground& ground, Bench& bench) {
  const Options& options = ground.options;
  for (const std::string& backend : options.backends) {
    if (options.raw) {
      DABKE_ASSIGN_OR_RETURN(
          auto raw, open_raw_backend(backend, ground.config, ground.place, ground.fork_guard, ground.heap));
      bench.competitors.push_back(std::move(raw));
    } else {
      bench.competitors.push_back(make_api_backend(backend));
    }
  }
  if (options.wants_peer("mpi") && ground.mpi != nullptr)
    bench.competitors.push_back(make_raw_mpi(*ground.mpi, ground.mpi_name));
  if (options.wants_peer("gloo") && ground.place.world.size > 1)
    bench.competitors.push_back(
        make_raw_gloo(store::with_prefix(ground.place.store, "perf/raw gloo"), bench.team));
  if (options.wants_peer("memcpy")) bench.competitors.push_back(make_memcpy());
  if (options.wants_peer("bound")) bench.competitors.push_back(make_bound());

  const Call call = call_of(options.kind, options.dtype, options.op, 0, bench.team.size(), options.begin);
  std::erase_if(bench.competitors, [&](const auto& competitor) {
    const bool is_out = !competitor->can_run(call);
    if (is_out && !competitor->name().starts_with("memcpy") && competitor->name() != "bound")
      note(ground, fmt::format("{} has no {} {} of {}; left out", competitor->name(), name_of(call.op),
                               name_of(call.kind), name_of(call.dtype)));
    return is_out;
  });
  if (!bench.competitors.empty()) return {};
  return {Code::invalid_argument, "nobody is left to measure; name others with --backends and --peers"};
}

Result<std::vector<Row>> measure(Bench& bench) {
  switch (bench.options.mode) {
    case Mode::latency: return run_latency(bench);
    case Mode::idle: return run_idle(bench);
    case Mode::steps: return run_steps(bench);
    case Mode::sweep: break;
  }
  return run_sweep(bench);
}

}  // namespace

bool is_in_job() { return std::getenv("DABKE_RANK") != nullptr || !mpi_of_job().empty(); }

Result<RankResult> measure_as_rank(const Options& given) {
  Options options = given;
  const std::string mpi_name = mpi_of_job();
  MpiUse mpi;
  if (!mpi_name.empty()) DABKE_RETURN_IF_ERROR(mpi.start(mpi_name, options.mpi_any_thread));
  if (mpi_name.empty())
    std::erase(options.backends, "mpi");  // it moves data only if it has started the ranks

  DABKE_ASSIGN_OR_RETURN(Config config, config_from_environment(process_environment()));
  if (config.module_path.empty()) config.module_path = module_folder();
  DABKE_ASSIGN_OR_RETURN(const bootstrap::Bootstrapped place,
                         bootstrap::bootstrap(config, process_environment()));
  if (options.ranks_given && options.ranks != place.world.size) {
    return Status(Code::invalid_argument,
                  fmt::format("-np is {}, but the job that this process is in has {} ranks; "
                              "leave -np out, or start dabke-perf by itself",
                              options.ranks, place.world.size));
  }
  if (place.mpi != nullptr) (void)place.mpi->job_begins();
  DABKE_ASSIGN_OR_RETURN(const auto team, Team::open(place.world, *place.store));
  ForkGuard fork_guard;
  shm::SharedHeap heap;
  RankResult result{.rank = place.world.rank};
  {
    Bench bench{.options = options,
                .team = *team,
                .job = mpi_name.empty() ? "dabkerun" : mpi_name,
                .cores = team->cores(),
                .heap = options.raw ? &heap : nullptr};
    DABKE_RETURN_IF_ERROR(
        add_competitors({options, config, place, fork_guard, heap, mpi.peer(), mpi_name}, bench));
    DABKE_ASSIGN_OR_RETURN(result.rows, measure(bench));
    team->barrier();
  }
  team->barrier();  // the rank that serves the store stays until no rank needs it
  if (place.mpi != nullptr) place.mpi->job_ended_well();
  (void)bootstrap::leave_epoch(place);
  team->barrier();
  return result;
}

}  // namespace dabke::perf

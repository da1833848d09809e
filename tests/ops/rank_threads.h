// Ranks as threads of one process, each with its own backends. They share only the
// store. The test chooses their hosts.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/registry.h"
#include "runtime/backend/backend_runner.h"
#include "tests/run_ranks.h"

namespace dabke::test {

/// One rank, with everything that a backend needs. The types below choose the backend.
struct RankThread {
  RankThread(int rank, std::vector<std::string> hosts, Config settings) : config(std::move(settings)) {
    world.rank = rank;
    world.size = static_cast<int>(hosts.size());
    world.hosts = std::move(hosts);
    for (int other = 0; other < world.size; ++other) all.ranks.push_back(other);
    all.rank = rank;
  }
  RankThread(const RankThread&) = delete;
  RankThread& operator=(const RankThread&) = delete;

  BackendContext context(std::shared_ptr<store::Store> store, shm::SharedHeap* heap = nullptr) {
    return {world, config, std::move(store), fork_guard, Log(), nullptr, heap};
  }

  /// Runs the batch over all ranks, or over its own set. It gets the next order unless it has a later one.
  Status run(Batch& batch) {
    if (batch.process_set == nullptr) batch.process_set = &all;
    order = batch.order = std::max(batch.order, order + 1);
    return runner->run_on(*backend, batch);
  }
  void release(ProcessSetId set) { runner->release(set); }
  void abort(const Status& cause) { runner->abort(cause); }
  Status barrier() {
    Batch batch;
    batch.kind = CollectiveKind::barrier;
    return run(batch);
  }
  Status sum(DType dtype, void* data, std::size_t elements) {
    Batch batch;
    batch.dtype = dtype;
    batch.entries.push_back({data, data, static_cast<std::int64_t>(elements), {}, {}});
    return run(batch);
  }

  World world;
  Config config;
  ForkGuard fork_guard;
  ProcessSetInfo all;
  std::uint64_t order = 0;
  Backend* backend = nullptr;
  std::optional<BackendRunner> runner;  // over that backend only

 protected:
  void use(Backend* one) {
    backend = one;
    runner.emplace(std::vector{one});
  }
};

/// A rank with all backends of the registry. It runs the one with this name.
struct RegistryRank : RankThread {
  RegistryRank(int rank, std::vector<std::string> hosts, std::shared_ptr<store::Store> store,
               const std::string& name)
      : RankThread(rank, std::move(hosts), {}) {
    auto made = ops::make_host_backends(context(std::move(store)));
    if (!made.is_ok()) throw std::runtime_error(made.status().message());
    backends = made.take();
    use(std::ranges::find(backends, name, [](const auto& one) { return one->name(); })->get());
  }
  std::vector<std::unique_ptr<Backend>> backends;
};

/// Runs `body` for a rank on each of `hosts`, with its One, made with `more`. Returns the results.
template <class One, class Body, class... More>
auto run_threads(const std::vector<std::string>& hosts, Body body, const More&... more) {
  const auto store = store::make_memory_store();
  return run_ranks(static_cast<int>(hosts.size()), [&](int rank) {
    One self(rank, hosts, store, more...);
    return body(self);
  });
}

template <class Body>
auto run_on_hosts(const std::string& backend, const std::vector<std::string>& hosts, Body body) {
  return run_threads<RegistryRank>(hosts, std::move(body), backend);
}

/// Each rank on a host of its own: host0, host1, and so on.
inline std::vector<std::string> one_rank_a_host(int ranks) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back("host" + std::to_string(rank));
  return hosts;
}

inline std::vector<std::string> on_one_host(int ranks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks), "here");
}

}  // namespace dabke::test

// Ranks as threads of one process, each with a Gloo backend of its own; they share nothing but the store.
#pragma once

#include <functional>
#include <future>
#include <string>
#include <vector>

#include "ops/gloo/gloo_backend.h"

namespace dabke::test {

/// One rank, with everything that a backend is made from.
struct RankThread {
  RankThread(int rank, int size, std::shared_ptr<Store> store, Config settings = {})
      : config(std::move(settings)) {
    world.rank = rank;
    world.size = size;
    world.hosts.assign(static_cast<std::size_t>(size), "here");
    all.rank = rank;
    for (int other = 0; other < size; ++other) all.ranks.push_back(other);
    backend =
        std::make_unique<GlooBackend>(BackendContext{world, config, std::move(store), fork_guard, Log()});
  }

  /// Runs the batch over all ranks, or over the set that it names.
  Status run(Batch& batch) {
    if (batch.process_set == nullptr) batch.process_set = &all;
    if (Status prepared = backend->prepare(*batch.process_set); !prepared.is_ok()) return prepared;
    Status result(Code::internal, "not completed");
    const auto store_result = [](void* into, const Status& status) { *static_cast<Status*>(into) = status; };
    backend->run(batch, {store_result, &result});
    return result;
  }

  World world;
  Config config;
  ForkGuard fork_guard;
  ProcessSetInfo all;
  std::unique_ptr<Collective> backend;
};

/// What each of `size` ranks returned from `body`, which gets its RankThread.
template <class Body>
auto run_on_ranks(int size, Body body, const Config& config = {}) {
  const auto store = make_memory_store();
  std::vector<std::future<decltype(body(std::declval<RankThread&>()))>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::async(std::launch::async, [=] {
      RankThread self(rank, size, store, config);
      return body(self);
    }));
  }
  std::vector<decltype(body(std::declval<RankThread&>()))> results;
  for (auto& rank : ranks) results.push_back(rank.get());
  return results;
}

}  // namespace dabke::test

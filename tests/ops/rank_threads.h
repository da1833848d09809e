// Ranks as threads of one process, each with the backends that the registry makes; they share nothing but the
// store, and are on the hosts that the test says.
#pragma once

#include <algorithm>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/collective.h"

namespace dabke::test {

/// One rank, with everything that a backend is made from.
struct RankThread {
  RankThread(const std::string& name, int rank, std::vector<std::string> hosts,
             std::shared_ptr<Store> store) {
    world.rank = rank;
    world.size = static_cast<int>(hosts.size());
    world.hosts = std::move(hosts);
    for (int other = 0; other < world.size; ++other) all.ranks.push_back(other);
    all.rank = rank;
    config.network_interface = "lo";
    auto made = make_backends({world, config, std::move(store), fork_guard, Log(), nullptr});
    if (!made.is_ok()) throw std::runtime_error(made.status().message());
    backends = made.take();
    backend = std::ranges::find(backends, name, [](const auto& one) { return one->name(); })->get();
  }

  /// Over all ranks, or over the set that the batch names.
  Status run(Batch& batch) {
    if (batch.process_set == nullptr) batch.process_set = &all;
    batch.order = ++order;
    const ProcessSetId id = batch.process_set->id;
    if (std::ranges::find(prepared, id) == prepared.end()) {
      DABKE_CHECK(backend->prepare(*batch.process_set));
      prepared.push_back(id);
    }
    Status result(Code::internal, "not completed");
    const auto store_result = [](void* into, const Status& status) { *static_cast<Status*>(into) = status; };
    backend->run(batch, {store_result, &result});
    return result;
  }
  void release(ProcessSetId set) {
    backend->release(set);
    std::erase(prepared, set);
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
  std::vector<std::unique_ptr<Collective>> backends;
  Collective* backend = nullptr;  // the one with the test's name
  std::vector<ProcessSetId> prepared;
};

/// What the rank on each of `hosts` returned from `body`, which gets its RankThread.
template <class Body>
auto run_on_hosts(const std::string& backend, const std::vector<std::string>& hosts, Body body) {
  const auto store = make_memory_store();
  using Seen = decltype(body(std::declval<RankThread&>()));
  std::vector<std::future<Seen>> ranks;
  for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) {
    ranks.push_back(std::async(std::launch::async, [=] {
      RankThread self(backend, rank, hosts, store);
      return body(self);
    }));
  }
  std::vector<Seen> seen;
  for (auto& rank : ranks) seen.push_back(rank.get());
  return seen;
}

/// Each rank on a host of its own: host0, host1, and so on.
inline std::vector<std::string> one_rank_a_host(int ranks) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back("host" + std::to_string(rank));
  return hosts;
}

}  // namespace dabke::test

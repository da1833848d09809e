// Ranks of the shared-memory backend that are threads of the test.
#pragma once

#include <cmath>
#include <future>
#include <random>
#include <stdexcept>

#include "ops/shm/shm_backend.h"

namespace dabke::testing {

/// One rank, with everything that a backend is made from.
struct RankThread {
  RankThread(int rank, int size, std::shared_ptr<Store> store, std::vector<std::string> hosts) {
    world.rank = rank;
    world.size = size;
    world.hosts = std::move(hosts);
    for (int other = 0; other < size; ++other) all.ranks.push_back(other);
    all.rank = rank;
    auto opened = open_shm_backend({world, config, std::move(store), fork_guard, Log(), nullptr, &heap});
    if (!opened.is_ok()) throw std::runtime_error(opened.status().message());
    backend = opened.take();
    if (backend && !backend->prepare(all)) throw std::runtime_error("prepare");
  }

  Status run(Batch& batch) {
    if (batch.process_set == nullptr) batch.process_set = &all;
    if (batch.order == 0) batch.order = ++order;
    Status result(Code::internal, "not completed");
    const auto store_result = [](void* into, const Status& status) { *static_cast<Status*>(into) = status; };
    backend->run(batch, {store_result, &result});
    return result;
  }
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
  SharedHeap heap;
  ProcessSetInfo all;
  std::uint64_t order = 0;
  std::unique_ptr<Collective> backend;
};

template <class Body>
auto run_on_ranks(int size, Body body, std::vector<std::string> hosts = {}) {
  if (hosts.empty()) hosts.assign(static_cast<std::size_t>(size), "here");
  const auto store = make_memory_store();
  using Seen = decltype(body(std::declval<RankThread&>()));
  std::vector<std::future<Seen>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::async(std::launch::async, [=] {
      RankThread self(rank, size, store, hosts);
      return body(self);
    }));
  }
  std::vector<Seen> seen;
  for (auto& rank : ranks) seen.push_back(rank.get());
  return seen;
}

/// Numbers whose sum depends on the order of adding.
inline std::vector<float> awkward(int rank, std::size_t elements) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::vector<float> values(elements);
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(random() % 2001) - 1000.0f, static_cast<int>(random() % 40) - 20);
  }
  return values;
}

}  // namespace dabke::testing

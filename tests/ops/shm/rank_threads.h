// Ranks with a shared-memory backend each.
#pragma once

#include <cmath>
#include <cstdlib>
#include <random>

#include "ops/shm/shm_backend.h"
#include "tests/ops/rank_threads.h"

namespace dabke::test {

/// A rank that is alone on its host has no backend.
struct ShmRank : RankThread {
  ShmRank(int rank, std::vector<std::string> hosts, std::shared_ptr<store::Store> store)
      : RankThread(rank, std::move(hosts), settings()) {
    auto opened = ops::open_shm_backend(context(std::move(store), &heap));
    if (!opened.is_ok()) throw std::runtime_error(opened.status().message());
    shm = opened.take();
    use(shm.get());
  }
  shm::SharedHeap heap;
  std::unique_ptr<Backend> shm;

 private:
  static Config settings() {
    Config config;
    if (const char* stores = std::getenv("DABKE_TEST_SHM_STORES"))
      config.shm_stores = std::string_view(stores) == "plain" ? StorePolicy::plain : StorePolicy::streaming;
    return config;
  }
};

template <class Body>
auto run_on_ranks(int size, Body body, const std::vector<std::string>& hosts = {}) {
  return run_threads<ShmRank>(hosts.empty() ? on_one_host(size) : hosts, std::move(body));
}

/// Numbers whose sum depends on the order of the additions.
inline std::vector<float> awkward(int rank, std::size_t elements) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::vector<float> values(elements);
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(random() % 2001) - 1000.0f, static_cast<int>(random() % 40) - 20);
  }
  return values;
}

}  // namespace dabke::test

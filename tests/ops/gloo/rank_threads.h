// Ranks with a Gloo backend each.
#pragma once

#include "ops/gloo/gloo_backend.h"
#include "tests/ops/rank_threads.h"

namespace dabke::test {

struct GlooRank : RankThread {
  GlooRank(int rank, std::vector<std::string> hosts, std::shared_ptr<store::Store> store,
           Config settings = {})
      : RankThread(rank, std::move(hosts), std::move(settings)), gloo(context(std::move(store))) {
    use(&gloo);
  }
  ops::GlooBackend gloo;
};

template <class Body>
auto run_on_ranks(int size, Body body, const Config& config = {}) {
  return run_threads<GlooRank>(on_one_host(size), std::move(body), config);
}

}  // namespace dabke::test

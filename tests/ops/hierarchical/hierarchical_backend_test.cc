// Shapes of jobs, bits, and how runs end. The conformance suite, which also runs
// over this backend, does not check them.
#include "ops/hierarchical/hierarchical_backend.h"

#include <cmath>
#include <latch>
#include <numeric>
#include <random>
#include <thread>

#include <catch2/catch.hpp>

#include "ops/hierarchical/host_leaders.h"
#include "runtime/store/init_failure.h"
#include "tests/ops/different_batches.h"
#include "tests/ops/rank_threads.h"
#include "tests/patience.h"
#include "tests/run_ranks.h"
#include "tests/runtime/links/ranks.h"

namespace dabke::test {
namespace {

using Hosts = std::vector<std::string>;

// Equal hosts, unequal hosts, a host with a single rank, ranks that alternate between hosts, three hosts.
const std::vector<Hosts> kShapes = {
    {"a", "a", "b", "b"}, {"a", "a", "a", "b", "b"},      {"a", "b", "b", "b"},
    {"a", "b", "a", "b"}, {"a", "a", "b", "b", "c", "c"},
};

/// Numbers whose sum depends on the order of the additions.
std::vector<float> awkward(int rank, std::size_t elements) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::vector<float> values(elements);
  for (float& value : values)
    value = std::ldexp(static_cast<float>(random() % 2001) - 1000.0f, static_cast<int>(random() % 40) - 20);
  return values;
}

}  // namespace

TEST_CASE("who waits in init in vain for the hosts of others names the rank that did not come") {
  const bool gives_up = GENERATE(false, true);
  const auto init_with = [&](double seconds) {
    Config config;
    config.start_timeout = seconds;
    const auto store = store::make_memory_store();
    return run_ranks(4, [&](Rank rank) -> std::string {
      World world;
      world.rank = rank;
      world.size = 4;
      world.hosts = {"a", "a", "b", "b"};
      ForkGuard guard;
      // Rank 2 dies before this. Or rank 0 waits for it elsewhere, and reports its failure in the end.
      if (rank == 2) return "";
      if (!gives_up || rank != 0)
        return ops::gather_leaders({world, config, store, guard, Log()}, rank < 2 ? 0 : 2).status().message();
      store::report_init_failure(*store, 0, {Code::timeout, "rank 0 has no link to rank 2 on b"});
      return "";
    });
  };
  const auto is_right = [&](const auto& said) {
    const auto says = [&](std::size_t rank, const char* text) {
      return said[rank].find(text) != std::string::npos;
    };
    for (const std::size_t rank : {0, 1, 3}) {
      if (says(rank, "rank 1 on a") || says(rank, "rank 3 on b")) return false;
      if (gives_up && rank != 0 && !says(rank, "gave up")) return false;
    }
    return true;
  };
  const auto seen = with_enough_time(1, init_with, is_right);
  for (const Rank rank : {0, 1, 3}) {
    const std::string& text = seen[static_cast<std::size_t>(rank)];
    if (gives_up && rank == 0) continue;
    CAPTURE(rank, text);
    CHECK_THAT(text, Catch::Contains("in dabke_init for") && Catch::Contains("rank 2 on b") &&
                         !Catch::Contains("rank 1 on a") && !Catch::Contains("rank 3 on b") &&
                         !Catch::Contains("was not set in"));
    if (gives_up) CHECK_THAT(text, Catch::Contains("(rank 0 gave up: rank 0 has no link to rank 2 on b)"));
  }
}

TEST_CASE("it serves what spans hosts and shares memory on one of them, and nothing else") {
  const auto seen = run_on_hosts("hierarchical", {"a", "a", "b", "b"}, [](RankThread& self) {
    const auto serves = [&](std::vector<Rank> ranks) {
      return self.backend->can_serve({1, std::move(ranks), 0});
    };
    return std::vector<bool>{serves({0, 1, 2, 3}), serves({0, 1, 2}), serves({0, 1}), serves({0, 2}),
                             serves({3})};
  });
  for (const auto& serves : seen) CHECK(serves == std::vector<bool>{true, true, false, false, false});
}

TEST_CASE("sums that depend on the order of adding have the same bits on all ranks of all hosts") {
  const Hosts hosts = GENERATE(from_range(kShapes));
  const std::size_t elements = GENERATE(1u, 20000u, 1000003u);  // one carrier, several carriers, and Gloo
  CAPTURE(hosts, elements);
  const auto seen = run_on_hosts("hierarchical", hosts, [&](RankThread& self) {
    std::vector<std::vector<float>> tensors;
    Batch batch;
    for (const std::size_t length : {elements, std::size_t{0}, std::size_t{3}, elements / 2 + 1})
      tensors.push_back(awkward(self.world.rank + static_cast<int>(length % 7), length));
    std::vector<std::vector<float>> outputs = tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const bool in_place = i % 2 == 0;
      float* const input = in_place ? outputs[i].data() : tensors[i].data();
      batch.entries.push_back(
          {input, outputs[i].data(), static_cast<std::int64_t>(tensors[i].size()), {}, {}});
    }
    if (const Status status = self.run(batch); !status.is_ok()) throw std::runtime_error(status.message());
    return outputs;
  });
  for (const auto& outputs : seen) CHECK(outputs == seen.front());
  // The results are the sums: the numbers of all ranks are added in double.
  for (std::size_t i = 0; i < seen.front().size(); ++i) {
    const std::vector<float>& got = seen.front()[i];
    std::vector<double> want(got.size(), 0), size(got.size(), 0);
    for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) {
      const auto one = awkward(rank + static_cast<int>(got.size() % 7), got.size());
      for (std::size_t k = 0; k < got.size(); ++k) {
        want[k] += one[k];
        size[k] += std::abs(one[k]);
      }
    }
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < got.size(); ++k)
      wrong += std::abs(got[k] - want[k]) > size[k] * 1e-6 * static_cast<double>(hosts.size()) ? 1 : 0;
    CHECK(wrong == 0);
  }
}

TEST_CASE("abort ends a run that waits for a rank on this host or another, with its cause") {
  const int come = GENERATE(1, 2);  // only rank 0, which waits inside its host; or all ranks of its host
  std::latch over(come);
  const auto seen = run_on_hosts("hierarchical", {"a", "a", "b", "b"}, [&](RankThread& self) {
    std::vector<float> x(100000, 1);
    if (!self.sum(DType::f32, x.data(), x.size()).is_ok()) throw std::runtime_error("sum");
    if (self.world.rank >= come) {
      over.wait();
      return Status();
    }
    std::jthread aborter([&] { self.abort({Code::aborted, "enough"}); });
    const Status status = self.sum(DType::f32, x.data(), x.size());
    over.arrive_and_wait();
    return status;
  });
  for (int rank = 0; rank < come; ++rank) {
    CHECK(seen[static_cast<std::size_t>(rank)].code() == Code::aborted);
    CHECK(seen[static_cast<std::size_t>(rank)].message() == "enough");
  }
}

TEST_CASE("ranks that bring different batches end with an error that names both, and mix no data") {
  const int ranks = GENERATE(3, 4);
  for (const Difference& difference : differences()) {
    DifferentBatches different(ranks, difference);
    const auto seen = run_on_hosts(
        "hierarchical",
        ranks == 3 ? std::vector<std::string>{"a", "a", "b"} : std::vector<std::string>{"a", "a", "b", "b"},
        [&](RankThread& self) { return different.run(self); });
    CAPTURE(ranks, difference.of_last.tensors, difference.of_last.elements, difference.of_others.elements);
    CHECK(different.wrong_with(seen) == "");
  }
}

TEST_CASE("a set that was released can be made again, with other ranks") {
  const auto seen = run_on_hosts("hierarchical", {"a", "a", "b", "b"}, [](RankThread& self) {
    std::vector<float> sums;
    for (const std::vector<Rank>& ranks : {std::vector<Rank>{0, 1, 2}, {1, 2, 3}, {0, 1, 2}}) {
      const auto found = std::ranges::find(ranks, self.world.rank);
      float x = static_cast<float>(self.world.rank) + 1;
      if (found != ranks.end()) {
        const ProcessSetInfo set{5, ranks, static_cast<int>(found - ranks.begin())};
        Batch batch;
        batch.process_set = &set;
        batch.entries.push_back({&x, &x, 1, {}, {}});
        if (!self.run(batch).is_ok()) throw std::runtime_error("run");
        self.release(5);
      } else {
        ++self.order;
      }
      sums.push_back(x);
    }
    return sums;
  });
  CHECK(seen == std::vector<std::vector<float>>{{6, 1, 6}, {6, 9, 6}, {6, 9, 6}, {4, 9, 4}});
}

}  // namespace dabke::test

// Bits, order, steps, and how runs end. The conformance suite, which also runs
// over this backend, does not check them.
#include <sys/resource.h>

#include <csignal>
#include <thread>

#include <catch2/catch.hpp>

#include "runtime/links/network.h"
#include "runtime/links/setup/link_setup.h"
#include "runtime/store/init_failure.h"
#include "tests/ops/different_batches.h"
#include "tests/ops/shm/rank_threads.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;
using namespace std::chrono_literals;

using test::awkward;
using test::run_on_ranks;
using test::ShmRank;

}  // namespace

TEST_CASE("every element is the sum in rank order, whatever the size, the offset and the tensors beside it") {
  const int size = GENERATE(2, 3, 5);
  CAPTURE(size);
  // Sizes below and above what fits into a line, what goes in lines, and what goes in one step. The largest
  // need many rounds with an uneven end.
  for (const std::size_t elements : {1UL, 14UL, 15UL, 56UL, 57UL, 1000UL, 8191UL, 70'001UL, 1'000'003UL}) {
    std::vector<float> want(elements);
    for (int rank = 0; rank < size; ++rank) {
      const auto values = awkward(rank, elements);
      for (std::size_t i = 0; i < elements; ++i) want[i] = rank == 0 ? values[i] : want[i] + values[i];
    }
    const auto seen = run_on_ranks(size, [&](ShmRank& self) {
      auto alone = awkward(self.world.rank, elements);
      if (!self.sum(DType::f32, alone.data(), elements).is_ok()) return false;
      auto fused = awkward(self.world.rank, elements);
      Batch batch;  // the same numbers in tensors of many lengths, after another tensor
      std::vector<float> first(317, 1);
      batch.entries.push_back({first.data(), first.data(), 317, {}, {}});
      for (std::size_t at = 0, length = 1; at < elements; at += length, length = length * 3 + 1) {
        length = std::min(length, elements - at);
        batch.entries.push_back(
            {fused.data() + at, fused.data() + at, static_cast<std::int64_t>(length), {}, {}});
      }
      return self.run(batch).is_ok() && alone == want && fused == want;
    });
    CAPTURE(elements);
    CHECK(seen == std::vector<bool>(static_cast<std::size_t>(size), true));
  }
}

TEST_CASE("half precision is rounded once, at the end of the sum") {
  const auto seen = run_on_ranks(3, [](ShmRank& self) {
    std::vector<f16> x(1000, f16(self.world.rank == 0 ? 2048.0f : 1.0f));  // 2048 + 1 is 2048 in float16
    if (!self.sum(DType::f16, x.data(), x.size()).is_ok()) return -1.0f;
    return static_cast<float>(x[999]);
  });
  CHECK(seen == std::vector<float>(3, 2050.0f));
}

TEST_CASE("an average of halves has the same bits whichever way it goes, and no overflow in between") {
  const auto seen = run_on_ranks(3, [](ShmRank& self) {
    const auto average = [&](CollectiveKind kind, std::size_t elements, std::size_t results) {
      // Three of these exceed float16, whose numbers are 32 apart here.
      const std::vector<f16> x(elements, f16(self.world.rank == 0 ? 60000.0f : 60064.0f));
      std::vector<f16> mean(results);
      const std::vector<std::int64_t> counts(3, static_cast<std::int64_t>(results));
      Batch batch;
      batch.kind = kind;
      batch.dtype = DType::f16;
      batch.divisor = 3;
      batch.entries.push_back({x.data(), mean.data(), static_cast<std::int64_t>(elements), counts, {}});
      return self.run(batch).is_ok() && mean == std::vector<f16>(results, f16((60000.0f + 2 * 60064.0f) / 3));
    };
    return average(CollectiveKind::allreduce, 300, 300) &&
           average(CollectiveKind::allreduce, 300'000, 300'000) &&
           average(CollectiveKind::reducescatter, 300'000, 100'000);
  });
  CHECK(seen == std::vector<bool>(3, true));
}

TEST_CASE("process sets that overlap use the same memory one after the other without harm") {
  constexpr int kRanks = 4;
  constexpr int kSteps = 1500;
  const auto seen = run_on_ranks(kRanks, [](ShmRank& self) -> std::string {
    std::mt19937 random(7);  // the same on all ranks
    const std::vector<std::vector<Rank>> sets = {{0, 1},    {1, 2}, {2, 3},      {3, 0},
                                                 {0, 1, 2}, {1, 3}, {0, 1, 2, 3}};
    std::vector<ProcessSetInfo> infos;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      ProcessSetInfo info{static_cast<ProcessSetId>(i + 1), sets[i], -1};
      const auto own = std::ranges::find(sets[i], self.world.rank);
      if (own != sets[i].end()) info.rank = static_cast<int>(own - sets[i].begin());
      infos.push_back(info);
    }
    for (int step = 1; step <= kSteps; ++step) {
      const ProcessSetInfo& set = infos[random() % infos.size()];
      const std::size_t elements = step % 50 == 0 ? 200'000 : 1 + random() % (step % 2 == 0 ? 60 : 5000);
      if (set.rank < 0) continue;
      std::vector<std::int32_t> x(elements);
      for (std::size_t i = 0; i < elements; ++i)
        x[i] = static_cast<std::int32_t>(i) * (self.world.rank + 1) + step;
      Batch batch;
      batch.order = static_cast<std::uint64_t>(step);
      batch.dtype = DType::i32;
      batch.process_set = &set;
      batch.entries.push_back({x.data(), x.data(), static_cast<std::int64_t>(elements), {}, {}});
      if (!self.run(batch).is_ok()) return "step " + std::to_string(step) + " failed";
      std::int32_t factor = 0;
      for (const Rank rank : set.ranks) factor += rank + 1;
      for (std::size_t i = 0; i < elements; ++i) {
        if (x[i] != static_cast<std::int32_t>(i) * factor + step * set.size())
          return "step " + std::to_string(step) + " element " + std::to_string(i);
      }
    }
    return "";
  });
  for (const std::string& complaint : seen) CHECK(complaint == "");
}

TEST_CASE("many more ranks than cores get through, with slices of a few elements") {
  constexpr int kRanks = 24;
  const auto seen = run_on_ranks(kRanks, [](ShmRank& self) {
    std::vector<std::int64_t> x(300'000, self.world.rank + 1);
    for (int i = 0; i < 3; ++i) {
      std::ranges::fill(x, self.world.rank + 1);
      if (!self.sum(DType::i64, x.data(), x.size()).is_ok()) return false;
    }
    return std::ranges::all_of(x, [](std::int64_t value) { return value == kRanks * (kRanks + 1) / 2; });
  });
  CHECK(seen == std::vector<bool>(kRanks, true));
}

TEST_CASE(
    "whoever waits for a rank that does not come ends with the cause of the abort, and so does all that "
    "follows") {
  const auto seen = run_on_ranks(3, [](ShmRank& self) {
    std::vector<float> x(1000, 1);
    if (!self.sum(DType::f32, x.data(), x.size()).is_ok()) return std::string("the first failed");
    if (self.world.rank == 1) return std::string("gone");
    std::jthread aborts([&] { self.abort({Code::peer_lost, "rank 1 is gone"}); });
    const Status status = self.sum(DType::f32, x.data(), x.size());
    const Status next = self.sum(DType::f32, x.data(), x.size());
    return status.message() + ", " + next.message();
  });
  CHECK(seen ==
        std::vector<std::string>{"rank 1 is gone, rank 1 is gone", "gone", "rank 1 is gone, rank 1 is gone"});
}

TEST_CASE("an abort finds those who have been asleep for long, too") {
  const auto seen = run_on_ranks(2, [](ShmRank& self) {
    if (self.world.rank == 1) return std::string("gone");
    std::atomic<bool> waits{false};
    std::jthread aborts([&] {
      waits.wait(false);
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();  // usually long after it stops spinning
      self.abort({Code::aborted, "enough"});
    });
    Batch batch;
    batch.kind = CollectiveKind::barrier;
    waits = true;
    waits.notify_all();
    return self.run(batch).message();
  });
  CHECK(seen[0] == "enough");
}

TEST_CASE("a collective that is not done at its deadline says so, with what it was") {
  const auto seen = run_on_ranks(2, [](ShmRank& self) {
    if (self.world.rank == 1) return std::string();
    std::vector<float> x(10, 1);
    Batch batch;
    batch.deadline = Clock::now() + 20ms;
    batch.entries.push_back({x.data(), x.data(), 10, {}, {}});
    return self.run(batch).message();
  });
  CHECK_THAT(seen[0], Contains("shm allreduce of 1 tensor (order 1), rank 0 of 2 in process set 0: not "
                               "finished within its limit"));
}

TEST_CASE("ranks that bring different batches end with an error that names both, and mix no data") {
  const int ranks = GENERATE(2, 3);
  for (const test::Difference& difference : test::differences()) {
    test::DifferentBatches different(ranks, difference);
    const auto seen = run_on_ranks(ranks, [&](ShmRank& self) { return different.run(self); });
    CAPTURE(ranks, difference.of_last.tensors, difference.of_last.elements, difference.of_others.elements);
    CHECK(different.wrong_with(seen) == "");
  }
}

TEST_CASE("ranks of several hosts share memory within each, and sets across hosts are left to others") {
  const auto seen = run_on_ranks(
      5,
      [](ShmRank& self) {
        if (!self.backend) return std::string("alone");
        std::string serves;
        for (const std::vector<Rank>& ranks : {std::vector<Rank>{0, 2}, {1, 3}, {0, 1}, {0, 1, 2, 3, 4}})
          serves += self.backend->can_serve({9, ranks, 0}) ? '1' : '0';
        std::vector<Rank> own = self.world.rank % 2 == 0 ? std::vector<Rank>{0, 2} : std::vector<Rank>{1, 3};
        const ProcessSetInfo set{1, own, self.world.rank / 2};
        std::int32_t x = self.world.rank;
        Batch batch;
        batch.dtype = DType::i32;
        batch.process_set = &set;
        batch.entries.push_back({&x, &x, 1, {}, {}});
        if (!self.run(batch).is_ok()) return std::string("run");
        return serves + " " + std::to_string(x);
      },
      {"ada", "bob", "ada", "bob", "cy"});
  CHECK(seen == std::vector<std::string>{"1000 2", "0100 4", "1000 2", "0100 4", "alone"});
}

TEST_CASE("where memory is short the ranks make do with less, and without any they are alone") {
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto with_limit = [&](rlim_t bytes) {
    const rlimit limit{bytes, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto seen = run_on_ranks(2, [](ShmRank& self) {
      if (!self.backend) return std::string("alone");
      std::vector<std::int32_t> x(100'000, self.world.rank + 1);
      if (!self.sum(DType::i32, x.data(), x.size()).is_ok()) return std::string("failed");
      return std::to_string(x[99'999]);
    });
    ::setrlimit(RLIMIT_FSIZE, &before);
    return seen;
  };
  CHECK(with_limit(900'000) == std::vector<std::string>{"3", "3"});
  CHECK(with_limit(75'000) == std::vector<std::string>{"alone", "alone"});
}

TEST_CASE("who waits in init for a leader that waits in vain itself names the rank that did not come") {
  const std::string of_leader = "rank 0 has no link to rank 1 on ";
  const std::string of_other = "(rank 0 gave up: " + of_leader;
  const auto seen = test::with_enough_time(
      1,
      [](double seconds) {
        const auto store = store::make_memory_store();
        std::vector<std::string> said(3);
        std::vector<std::jthread> threads;
        for (const int rank : {0, 2}) {
          threads.emplace_back([&, rank] {
            Config config;
            config.start_timeout = seconds;
            test::RankThread self(rank, test::on_one_host(3), config);
            const Status failed = ops::open_shm_backend(self.context(store)).status();
            said[static_cast<std::size_t>(rank)] = failed.message();
            store::report_init_failure(*store, rank, failed);  // as the runtime does
          });
        }
        threads.clear();
        return said;
      },
      [&](const auto& said) { return said[2].find(of_other) != std::string::npos; });
  CHECK_THAT(seen[0], Contains(of_leader));
  CHECK_THAT(seen[2], Contains(of_other));
}

TEST_CASE("whoever goes away between its link and sharing memory is named by all") {
  const auto store = store::make_memory_store();
  std::vector<std::string> said(3);
  const auto open = [&](int rank) {
    test::RankThread self(rank, test::on_one_host(3), {});
    const Status failed = ops::open_shm_backend(self.context(store)).status();
    said[static_cast<std::size_t>(rank)] = failed.message();
    store::report_init_failure(*store, rank, failed);  // as the runtime does
  };
  std::jthread leader(open, 0);
  {
    test::RankThread self(1, test::on_one_host(3), {});
    const std::vector<Rank> others{0};
    const auto address = links::listening_address(self.world);
    REQUIRE(address.is_ok());
    const auto links = links::open_links({.world = self.world,
                                          .neighbours = others,
                                          .listen_at = *address,
                                          .store = store,
                                          .guard = self.fork_guard,
                                          .log = Log(),
                                          .deadline = deadline_after(60),
                                          .prefix = "shm",
                                          .shared_memory = links::SharedMemory::where_possible});
    REQUIRE(links.is_ok());
    REQUIRE((*links).front()->is_shared_memory());
  }
  // The leader waits for rank 2 before it offers anything to rank 1, which is gone by then.
  std::jthread(open, 2).join();
  leader.join();
  CHECK_THAT(said[0], Contains("rank 1 on here disappeared during dabke_init"));
  CHECK_THAT(said[2], Contains("rank 1 on here disappeared during dabke_init"));
}

}  // namespace dabke::test

// Bits, sizes, and how runs end. The conformance suite, which also runs
// over this backend, does not check them.
#include "ops/tcp/tcp_backend.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <semaphore>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/ops/different_batches.h"
#include "tests/ops/rank_threads.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;
using namespace std::chrono_literals;

/// Numbers whose sum depends on the order of the additions, and NaNs that identify their rank.
std::vector<float> awkward(int rank, std::size_t elements) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::vector<float> values(elements);
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(random() % 2001) - 1000.0f, static_cast<int>(random() % 40) - 20);
    if (random() % 16 == 0) {
      const std::uint32_t bits = 0x7fc00000u + static_cast<std::uint32_t>(rank) + 1;
      std::memcpy(&value, &bits, sizeof value);
    }
  }
  return values;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

template <class Body>
auto run_on_ranks(int size, Body body) {
  return run_on_hosts("tcp", one_rank_a_host(size), std::move(body));
}

}  // namespace

TEST_CASE("sums that depend on the order of adding have the same bits on all ranks, at any number of them") {
  const int ranks = GENERATE(2, 3, 4, 5, 7, 8, 13);
  const std::size_t elements = GENERATE(1u, 1000u, 100003u, kSanitized ? 200003u : 3000001u);
  CAPTURE(ranks, elements);
  const auto seen = run_on_ranks(ranks, [&](RankThread& self) {
    std::vector<std::vector<std::uint32_t>> runs;
    const auto own = awkward(self.world.rank, elements);
    for (int run = 0; run < 2; ++run) {
      auto values = own;
      if (!self.sum(DType::f32, values.data(), elements).is_ok()) throw std::runtime_error("sum");
      runs.push_back(bits_of(values));
    }
    return runs;
  });
  for (const auto& runs : seen) {
    CHECK(runs[0] == seen[0][0]);
    CHECK(runs[1] == runs[0]);
  }
}

TEST_CASE("a broadcast comes from any root, and an allgather keeps blocks of any length apart") {
  const int ranks = GENERATE(2, 3, 5, 6, 8);
  CAPTURE(ranks);
  const auto seen = run_on_ranks(ranks, [&](RankThread& self) {
    std::string wrong;
    for (int root = 0; root < ranks; ++root) {
      std::vector<std::int32_t> data(1001, self.world.rank);
      Batch batch;
      batch.kind = CollectiveKind::broadcast;
      batch.dtype = DType::i32;
      batch.root = root;
      batch.entries.push_back({data.data(), data.data(), 1001, {}, {}});
      if (!self.run(batch).is_ok() || data != std::vector<std::int32_t>(1001, root)) wrong += "broadcast ";
    }
    std::vector<std::int64_t> counts;
    std::vector<std::int32_t> want;
    for (int rank = 0; rank < ranks; ++rank) {
      counts.push_back(rank % 3 * 7);  // some ranks have none
      want.insert(want.end(), static_cast<std::size_t>(counts.back()), rank);
    }
    const std::vector<std::int32_t> mine(static_cast<std::size_t>(self.world.rank % 3 * 7), self.world.rank);
    std::vector<std::int32_t> all(want.size());
    Batch batch;
    batch.kind = CollectiveKind::allgather;
    batch.dtype = DType::i32;
    batch.entries.push_back({mine.data(), all.data(), static_cast<std::int64_t>(mine.size()), counts, {}});
    if (!self.run(batch).is_ok() || all != want) wrong += "allgather";
    return wrong;
  });
  for (const std::string& wrong : seen) CHECK(wrong == "");
}

TEST_CASE("nobody leaves a barrier before all have come") {
  const int ranks = GENERATE(2, 3, 6);
  std::atomic<int> came{0};
  const auto seen = run_on_ranks(ranks, [&](RankThread& self) {
    for (int round = 1; round <= 100; ++round) {
      ++came;
      Batch batch;
      batch.kind = CollectiveKind::barrier;
      if (!self.run(batch).is_ok() || came < round * ranks) return false;
    }
    return true;
  });
  CHECK(seen == std::vector<bool>(static_cast<std::size_t>(ranks), true));
}

TEST_CASE(
    "tcp takes what is small, and anything between two ranks, and leaves large and rare collectives to "
    "others") {
  const auto seen = run_on_ranks(2, [](RankThread& self) {
    const auto takes = [&](CollectiveKind kind, std::size_t bytes, int ranks = 3) {
      return self.backend->can_run({.kind = kind}, {bytes, ranks});
    };
    std::string wrong;
    for (const auto kind :
         {CollectiveKind::allreduce, CollectiveKind::broadcast, CollectiveKind::allgather}) {
      if (!takes(kind, ops::TcpBackend::kMostBytes) || takes(kind, ops::TcpBackend::kMostBytes + 1))
        wrong += name_of(kind);
    }
    if (!takes(CollectiveKind::allreduce, std::size_t{1} << 30, 2)) wrong += "two ranks";
    if (!takes(CollectiveKind::barrier, 0)) wrong += "barrier";
    if (takes(CollectiveKind::alltoall, 0) || takes(CollectiveKind::reducescatter, 4)) wrong += "rare";
    return wrong;
  });
  CHECK(seen == std::vector<std::string>(2));
}

TEST_CASE("abort from another thread ends a run that waits, and every later one, with its cause") {
  std::binary_semaphore over{0};
  const auto seen = run_on_ranks(2, [&](RankThread& self) {
    std::vector<float> x(100, 1);
    if (!self.sum(DType::f32, x.data(), x.size()).is_ok()) throw std::runtime_error("sum");
    std::vector<Status> statuses;
    if (self.world.rank == 0) {  // never starts the run
      over.acquire();
      return statuses;
    }
    std::jthread aborter([&] { self.abort({Code::aborted, "enough"}); });
    statuses.push_back(self.sum(DType::f32, x.data(), x.size()));
    statuses.push_back(self.sum(DType::f32, x.data(), x.size()));
    over.release();
    return statuses;
  });
  REQUIRE(seen[1].size() == 2);
  for (const Status& status : seen[1]) {
    CHECK(status.code() == Code::aborted);
    CHECK(status.message() == "enough");
  }
}

TEST_CASE("abort ends the opening of links to a rank that never comes") {
  const auto seen = run_on_ranks(2, [](RankThread& self) {
    if (self.world.rank == 1) return Status(Code::aborted, "enough");
    std::jthread aborter([&] { self.abort({Code::aborted, "enough"}); });
    return self.barrier();
  });
  CHECK(seen[0].code() == Code::aborted);
}

TEST_CASE("a rank that goes away in a run is named, with its host") {
  const auto seen = run_on_ranks(3, [](test::RegistryRank& self) {
    std::vector<float> x(1000, 1);
    if (!self.sum(DType::f32, x.data(), x.size()).is_ok()) throw std::runtime_error("sum");
    if (self.world.rank == 2) {
      self.backends.clear();
      return Status();
    }
    return self.sum(DType::f32, x.data(), x.size());
  });
  // A third rank's failure could be the cause, so this is not a verdict yet.
  CHECK(seen[0].code() == Code::transport);  // place 2 sends its data to place 0
  CHECK_THAT(seen[0].message(), Contains("lost the connection to rank 2 on host2") &&
                                    Contains("tcp allreduce of 1 tensor (order 2)"));
  CHECK(seen[1].code() == Code::transport);  // rank 0 has failed, and has notified rank 1
}

TEST_CASE("a deadline ends a run whose peer is late") {
  std::binary_semaphore over{0};
  const auto seen = run_on_ranks(2, [&](RankThread& self) {
    std::vector<float> x(10, 1);
    if (!self.sum(DType::f32, x.data(), x.size()).is_ok()) throw std::runtime_error("sum");
    if (self.world.rank == 1) {
      over.acquire();
      return Status(Code::timeout, "");
    }
    Batch batch;
    batch.deadline = Clock::now() + 20ms;
    batch.entries.push_back({x.data(), x.data(), 10, {}, {}});
    const Status status = self.run(batch);
    over.release();
    return status;
  });
  CHECK(seen[0].code() == Code::timeout);
  CHECK_THAT(seen[0].message(), Contains("rank 1 on host1"));
}

TEST_CASE("ranks that bring different batches end with an error that names both, and mix no data") {
  const int ranks = GENERATE(2, 3);
  for (const Difference& difference : differences()) {
    DifferentBatches different(ranks, difference);
    const auto seen = run_on_ranks(ranks, [&](RankThread& self) { return different.run(self); });
    CAPTURE(ranks, difference.of_last.tensors, difference.of_last.elements, difference.of_others.elements);
    CHECK(different.wrong_with(seen) == "");
  }
}

TEST_CASE("process sets have links of their own, which come and go with them") {
  const auto seen = run_on_ranks(4, [](RankThread& self) {
    float total = 0;
    for (int round = 0; round < 3; ++round) {
      ProcessSetInfo pair{1, {self.world.rank / 2 * 2, self.world.rank / 2 * 2 + 1}, self.world.rank % 2};
      for (const ProcessSetInfo* const set :
           {const_cast<const ProcessSetInfo*>(&self.all), &std::as_const(pair)}) {
        float x = static_cast<float>(self.world.rank);
        Batch batch;
        batch.process_set = set;
        batch.entries.push_back({&x, &x, 1, {}, {}});
        if (!self.run(batch).is_ok()) throw std::runtime_error("run");
        total += x;
      }
      self.release(1);
    }
    return total;
  });
  CHECK(seen == std::vector<float>{21, 21, 33, 33});
}

}  // namespace dabke::test

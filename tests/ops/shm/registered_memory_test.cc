// Collectives on memory that ranks have registered, alone and together with other memory.
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/ops/shm/rank_threads.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

using test::awkward;
using test::run_on_ranks;
using test::ShmRank;

/// A tensor in registered memory, or in other memory.
template <class T>
struct Place {
  Place(ShmRank& self, std::size_t count, bool is_registered) : elements(count) {
    if (!is_registered) {
      own.resize(count);
      data = own.data();
      return;
    }
    auto memory = self.heap.allocate(count * sizeof(T));
    if (!memory) throw std::runtime_error(memory.status().message());
    data = static_cast<T*>(*memory);
  }
  void fill(const std::vector<T>& from) { std::ranges::copy(from, data); }
  bool holds(const std::vector<T>& want) const {
    return std::equal(want.begin(), want.end(), data, data + elements);
  }
  std::int64_t count() const { return static_cast<std::int64_t>(elements); }

  std::size_t elements;
  T* data = nullptr;
  std::vector<T> own;
};

/// The number of mapped ranges of registered memory in this process: each rank's own,
/// and those of peers that it works on.
std::ptrdiff_t mapped_ranges() {
  std::ifstream maps("/proc/self/maps");
  std::ptrdiff_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:dabke-memory") != std::string::npos;
  return count;
}

std::vector<float> sum_in_order(int size, std::size_t elements) {
  std::vector<float> sum = awkward(0, elements);
  for (int rank = 1; rank < size; ++rank) {
    const auto values = awkward(rank, elements);
    for (std::size_t i = 0; i < elements; ++i) sum[i] += values[i];
  }
  return sum;
}

}  // namespace

TEST_CASE("registered memory is summed to the same bits as any other, in place and elsewhere") {
  const int size = GENERATE(2, 3, 5);
  CAPTURE(size);
  for (const std::size_t elements : {16'384UL, 70'001UL, test::kSanitized ? 300'007UL : 1'000'003UL}) {
    CAPTURE(elements);
    const auto want = sum_in_order(size, elements);
    const auto seen = run_on_ranks(size, [&](ShmRank& self) {
      Place<float> x(self, elements, true), y(self, elements, true);
      for (int step = 0; step < 3; ++step) {
        x.fill(awkward(self.world.rank, elements));
        Batch elsewhere;
        elsewhere.entries.push_back({x.data, y.data, x.count(), {}, {}});
        if (!self.run(elsewhere).is_ok() || !y.holds(want) || !x.holds(awkward(self.world.rank, elements)))
          return false;
        if (!self.sum(DType::f32, x.data, elements).is_ok() || !x.holds(want)) return false;
      }
      return true;
    });
    CHECK(seen == std::vector<bool>(static_cast<std::size_t>(size), true));
  }
}

TEST_CASE("peers map registered memory when it is first used, and let go of it at the end of the job") {
  constexpr std::size_t kElements = 50'000;
  const auto at_end = run_on_ranks(2, [](ShmRank& self) {
    Place<float> x(self, kElements, true);
    const bool is_well = self.barrier().is_ok();
    const auto before = mapped_ranges();
    if (!is_well || !self.barrier().is_ok() || !self.sum(DType::f32, x.data, kElements).is_ok() ||
        !self.barrier().is_ok())
      return false;
    const auto after = mapped_ranges();
    return self.barrier().is_ok() && before == 2 && after == 4;
  });
  CHECK(at_end == std::vector<bool>{true, true});
  CHECK(mapped_ranges() == 0);
}

TEST_CASE("scales and every operation give the same bits in registered memory and beside it") {
  struct Case {
    ReduceOp op;
    double prescale, postscale;
  };
  const auto [op, prescale, postscale] = GENERATE(
      Case{ReduceOp::sum, 1.0 / 3, 0.7}, Case{ReduceOp::sum, 1, 1.0 / 7}, Case{ReduceOp::product, 1, 1},
      Case{ReduceOp::min, 1.5, 1}, Case{ReduceOp::max, 1, 1}, Case{ReduceOp::bitwise_and, 1, 1},
      Case{ReduceOp::bitwise_or, 2, 1}, Case{ReduceOp::bitwise_xor, 1, 1});
  const auto dtype = GENERATE(DType::f32, DType::bf16, DType::f16, DType::i32, DType::u8, DType::f64);
  if (!is_defined(op, dtype)) return;
  CAPTURE(name_of(op), name_of(dtype), prescale);
  constexpr std::size_t kBytes = 200'000;
  const auto seen = run_on_ranks(3, [&, op = op, prescale = prescale, postscale = postscale](ShmRank& self) {
    std::mt19937 random(static_cast<unsigned>(self.world.rank));
    std::vector<std::uint8_t> bytes(kBytes);
    std::vector<float> floats(kBytes / 4);
    for (float& value : floats) value = static_cast<float>(random() % 1000) / 64 - 7;
    if (dtype == DType::f32) {
      std::memcpy(bytes.data(), floats.data(), kBytes);
    } else {
      for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random() % 100);
    }
    Place<std::uint8_t> registered(self, kBytes, true), other(self, kBytes, false);
    registered.fill(bytes);
    other.fill(bytes);
    for (std::uint8_t* const data : {registered.data, other.data}) {
      Batch batch;
      batch.op = op;
      batch.dtype = dtype;
      batch.prescale = prescale;
      batch.postscale = postscale;
      batch.entries.push_back({data, data, static_cast<std::int64_t>(kBytes / size_of(dtype)), {}, {}});
      if (!self.run(batch).is_ok()) return false;
    }
    return registered.holds(other.own);
  });
  CHECK(seen == std::vector<bool>(3, true));
}

TEST_CASE("a batch may mix registered and private tensors, and each rank may have other ones registered") {
  constexpr int kRanks = 3;
  constexpr int kSteps = 60;
  const auto seen = run_on_ranks(kRanks, [](ShmRank& self) -> std::string {
    std::mt19937 alike(11);  // the same on all ranks
    std::mt19937 own(static_cast<unsigned>(self.world.rank) + 100);
    for (int step = 1; step <= kSteps; ++step) {
      const std::size_t tensors = 1 + alike() % 5;
      // In half of the steps, some tensors are registered on all ranks.
      // Otherwise, each rank chooses by itself.
      const bool all_of_some = step % 2 == 0;
      std::vector<Place<std::int32_t>> set_ranks;
      Batch batch;
      batch.dtype = DType::i32;
      for (std::size_t i = 0; i < tensors; ++i) {
        const std::size_t elements = alike() % 4 == 0 ? alike() % 3 : 1 + alike() % 60'000;
        const bool together = all_of_some && i % 2 == 0;
        set_ranks.emplace_back(self, elements, together || own() % 2 == 0);
        for (std::size_t k = 0; k < elements; ++k)
          set_ranks[i].data[k] = static_cast<std::int32_t>(k) * (self.world.rank + 1) + step;
      }
      for (auto& set_rank : set_ranks)
        batch.entries.push_back({set_rank.data, set_rank.data, set_rank.count(), {}, {}});
      if (const Status status = self.run(batch); !status.is_ok()) return status.message();
      for (const auto& set_rank : set_ranks) {
        for (std::size_t k = 0; k < set_rank.elements; ++k) {
          if (set_rank.data[k] != static_cast<std::int32_t>(k) * 6 + step * kRanks)
            return "step " + std::to_string(step) + " element " + std::to_string(k);
        }
      }
      for (auto& set_rank : set_ranks) {
        if (set_rank.own.empty() && set_rank.elements != 0 && !self.heap.free(set_rank.data).is_ok())
          return "free";
      }
    }
    return "";
  });
  for (const std::string& complaint : seen) CHECK(complaint == "");
}

TEST_CASE("memory that moves from private to registered and back is found wherever it is") {
  const auto seen = run_on_ranks(2, [](ShmRank& self) {
    constexpr std::size_t kElements = 50'000;
    Place<std::int64_t> registered(self, kElements, true), other(self, kElements, false);
    for (int step = 0; step < 300; ++step) {
      // The ranks are not in step: one moves earlier than the other.
      auto& x = (step + 7 * self.world.rank) / 100 % 2 == 0 ? other : registered;
      std::fill_n(x.data, kElements, step + self.world.rank);
      if (!self.sum(DType::i64, x.data, kElements).is_ok()) return false;
      if (std::count(x.data, x.data + kElements, 2 * step + 1) != kElements) return false;
    }
    return true;
  });
  CHECK(seen == std::vector<bool>(2, true));
}

TEST_CASE("memory that was freed and given out again is reached at its new place, however much is added") {
  const auto seen = run_on_ranks(3, [](ShmRank& self) {
    std::mt19937 random(static_cast<unsigned>(self.world.rank));
    std::vector<void*> kept;
    for (std::size_t step = 1; step <= 40; ++step) {
      // Ranks have different layouts.
      for (std::size_t i = random() % 3; i > 0; --i)
        kept.push_back(*self.heap.allocate(1 + random() % 3'000'000));
      const std::size_t elements = 20'000 * step;
      Place<std::int32_t> x(self, elements, true);
      std::fill_n(x.data, elements, static_cast<std::int32_t>(step) * (self.world.rank + 1));
      if (!self.sum(DType::i32, x.data, elements).is_ok()) return false;
      if (static_cast<std::size_t>(
              std::count(x.data, x.data + elements, static_cast<std::int32_t>(step) * 6)) != elements)
        return false;
      if (!self.heap.free(x.data).is_ok()) return false;
      if (kept.size() < 10) continue;
      for (void* const memory : kept) {
        if (!self.heap.free(memory).is_ok()) return false;
      }
      kept.clear();
    }
    return true;
  });
  CHECK(seen == std::vector<bool>(3, true));
}

TEST_CASE("allgather, broadcast and reducescatter read registered memory, whatever the output is") {
  const bool registers_output = GENERATE(true, false);
  constexpr int kRanks = 3;
  const auto seen = run_on_ranks(kRanks, [&](ShmRank& self) -> std::string {
    const int rank = self.world.rank;
    const std::vector<std::int64_t> counts = {40'000, 0, 30'001};
    const auto own = static_cast<std::size_t>(rank);
    constexpr std::size_t kAll = 70'001;
    Place<std::int32_t> part(self, static_cast<std::size_t>(counts[own]), true),
        whole(self, kAll, registers_output);
    Place<std::int32_t> full(self, kAll, true),
        slice(self, static_cast<std::size_t>(counts[own]), registers_output);
    const auto of_rank = [](std::size_t from) { return static_cast<std::int32_t>(from) + 1; };
    for (int step = 0; step < 2; ++step) {
      std::fill_n(part.data, part.elements, of_rank(own));
      Batch gather;
      gather.kind = CollectiveKind::allgather;
      gather.dtype = DType::i32;
      gather.entries.push_back({part.data, whole.data, part.count(), counts, {}});
      if (!self.run(gather).is_ok()) return "allgather failed";
      for (std::size_t i = 0; i < kAll; ++i) {
        if (whole.data[i] != of_rank(i < 40'000 ? 0 : 2)) return "allgather " + std::to_string(i);
      }
      std::iota(full.data, full.data + kAll, rank);
      Batch scatter;
      scatter.kind = CollectiveKind::reducescatter;
      scatter.dtype = DType::i32;
      scatter.postscale = 2;
      scatter.entries.push_back({full.data, slice.data, full.count(), counts, {}});
      if (!self.run(scatter).is_ok()) return "reducescatter failed";
      const std::int32_t skipped = rank == 2 ? 40'000 : 0;
      for (std::size_t i = 0; i < slice.elements; ++i) {
        if (slice.data[i] != 2 * (3 * (static_cast<std::int32_t>(i) + skipped) + 3))
          return "reducescatter " + std::to_string(i);
      }
      Batch broadcast;
      broadcast.kind = CollectiveKind::broadcast;
      broadcast.dtype = DType::i32;
      broadcast.root = 1;
      broadcast.entries.push_back({full.data, rank == 1 ? full.data : whole.data, full.count(), {}, {}});
      if (!self.run(broadcast).is_ok()) return "broadcast failed";
      for (std::size_t i = 0; rank != 1 && i < kAll; ++i) {
        if (whole.data[i] != static_cast<std::int32_t>(i) + 1) return "broadcast " + std::to_string(i);
      }
    }
    return "";
  });
  for (const std::string& complaint : seen) CHECK(complaint == "");
}

TEST_CASE("a reducescatter whose output is its input's memory does not spoil what others still read") {
  const auto seen = run_on_ranks(3, [](ShmRank& self) {
    const std::vector<std::int64_t> counts(3, 100'000);
    Place<std::int32_t> x(self, 300'000, true);
    for (int step = 0; step < 5; ++step) {
      std::iota(x.data, x.data + x.elements, self.world.rank);
      Batch batch;
      batch.kind = CollectiveKind::reducescatter;
      batch.dtype = DType::i32;
      batch.entries.push_back({x.data, x.data, x.count(), counts, {}});
      if (!self.run(batch).is_ok()) return false;
      for (int i = 0; i < 100'000; ++i) {
        if (x.data[i] != 3 * (i + 100'000 * self.world.rank) + 3) return false;
      }
    }
    return true;
  });
  CHECK(seen == std::vector<bool>(3, true));
}

TEST_CASE("overlapping process sets reach registered memory, each when it needs it first") {
  const auto seen = run_on_ranks(4, [](ShmRank& self) -> std::string {
    std::mt19937 random(3);  // the same on all ranks
    const std::vector<std::vector<Rank>> sets = {{0, 1}, {1, 2}, {2, 3}, {0, 1, 2, 3}, {1, 3}, {0, 2, 3}};
    std::vector<ProcessSetInfo> infos;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      ProcessSetInfo info{static_cast<ProcessSetId>(i + 1), sets[i], -1};
      const auto own = std::ranges::find(sets[i], self.world.rank);
      if (own != sets[i].end()) info.rank = static_cast<int>(own - sets[i].begin());
      infos.push_back(info);
    }
    for (int step = 1; step <= 200; ++step) {
      const ProcessSetInfo& set = infos[random() % infos.size()];
      const std::size_t elements = 20'000 + random() % 30'000;
      if (set.rank < 0) continue;
      Place<std::int32_t> x(self, elements, true);
      std::fill_n(x.data, elements, step + self.world.rank);
      Batch batch;
      batch.order = static_cast<std::uint64_t>(step);
      batch.dtype = DType::i32;
      batch.process_set = &set;
      batch.entries.push_back({x.data, x.data, x.count(), {}, {}});
      if (const Status status = self.run(batch); !status.is_ok()) return status.message();
      const std::int32_t want = std::accumulate(set.ranks.begin(), set.ranks.end(), step * set.size());
      if (static_cast<std::size_t>(std::count(x.data, x.data + elements, want)) != elements)
        return "step " + std::to_string(step);
      if (step % 3 == 0 && !self.heap.free(x.data).is_ok()) return "free";
    }
    return "";
  });
  for (const std::string& complaint : seen) CHECK(complaint == "");
}

TEST_CASE("many ranks, each with registered memory, find each other's") {
  constexpr int kRanks = 24;
  const auto seen = run_on_ranks(kRanks, [](ShmRank& self) {
    Place<std::int64_t> x(self, 30'000, true);
    for (int step = 0; step < 3; ++step) {
      std::fill_n(x.data, x.elements, self.world.rank);
      if (!self.sum(DType::i64, x.data, x.elements).is_ok()) return false;
      if (std::count(x.data, x.data + x.elements, kRanks * (kRanks - 1) / 2) != x.count()) return false;
    }
    return true;
  });
  CHECK(seen == std::vector<bool>(kRanks, true));
}

TEST_CASE("where the descriptors cannot be had the ranks copy instead, and all ranks alike") {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const auto seen = run_on_ranks(2, [&](ShmRank& self) {
    Place<std::int32_t> x(self, 100'000, true);
    if (!self.barrier().is_ok()) return -1;
    if (self.world.rank == 0) {
      const rlimit none{0, before.rlim_max};
      ::setrlimit(RLIMIT_NOFILE, &none);  // no descriptor can be opened from here on
    }
    if (!self.barrier().is_ok()) return -1;
    for (int step = 0; step < 3; ++step) {
      std::fill_n(x.data, x.elements, self.world.rank + step);
      if (!self.sum(DType::i32, x.data, x.elements).is_ok()) return -2;
    }
    if (!self.barrier().is_ok()) return -3;
    if (self.world.rank == 0) ::setrlimit(RLIMIT_NOFILE, &before);
    if (!self.barrier().is_ok()) return -3;
    const auto mapped = mapped_ranges();
    return self.barrier().is_ok() && mapped == 2 ? x.data[99'999] : -4;
  });
  ::setrlimit(RLIMIT_NOFILE, &before);
  CHECK(seen == std::vector<int>{5, 5});
}

TEST_CASE("whoever has given up gets its memory back untouched by those who have not heard of it yet") {
  // Rank 2 never comes. Rank 0 notices that at once, and rank 1 a little
  // later. Until then, rank 1 must not write.
  const auto seen = run_on_ranks(3, [](ShmRank& self) {
    Place<std::int32_t> x(self, 2'000'000, true);
    std::fill_n(x.data, x.elements, 1);
    if (!self.sum(DType::i32, x.data, x.elements).is_ok()) return false;
    if (self.world.rank == 2) return true;
    std::jthread aborts([&] { self.abort({Code::peer_lost, "rank 2 is gone"}); });
    std::fill_n(x.data, x.elements, 5);
    if (self.sum(DType::i32, x.data, x.elements).is_ok()) return false;
    std::fill_n(x.data, x.elements, 7);
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    return std::count(x.data, x.data + x.elements, 7) == x.count();
  });
  CHECK(seen == std::vector<bool>(3, true));
}

}  // namespace dabke::test

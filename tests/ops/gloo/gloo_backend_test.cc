#include "ops/gloo/gloo_backend.h"
#include "ops/gloo/gloo_algorithms.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "ops/registry.h"
#include "tests/ops/gloo/rank_threads.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

using Catch::Contains;
using Catch::StartsWith;
using test::GlooRank;
using test::run_on_ranks;

constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};
using Bytes = std::vector<std::byte>;

/// `count` elements of any dtype. Element i is `value(i)`, which the dtype can hold.
template <class Value>
Bytes make(DType dtype, std::size_t count, Value value) {
  Bytes bytes(count * size_of(dtype));
  visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < count; ++i) {
      T element;
      if constexpr (std::is_same_v<T, bool>) {
        element = value(i) != 0;
      } else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
        element = T(static_cast<float>(value(i)));
      } else {
        element = static_cast<T>(value(i));
      }
      std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
    }
  });
  return bytes;
}

/// Element i of entry `entry` on rank `rank`: so small that the sum or product over
/// four ranks is exact in every dtype.
double element(int rank, std::size_t entry, std::size_t i) {
  return 1 + static_cast<double>((static_cast<std::size_t>(rank) * 2 + entry + i) % 3);
}
double bool_element(int rank, std::size_t entry, std::size_t i) {
  return (static_cast<std::size_t>(rank) + entry + i) % 3 == 0 ? 1 : 0;
}
double element_of(DType dtype, int rank, std::size_t entry, std::size_t i) {
  return dtype == DType::b8 ? bool_element(rank, entry, i) : element(rank, entry, i);
}

double reduced(ReduceOp op, DType dtype, int size, std::size_t entry, std::size_t i) {
  double result = element_of(dtype, 0, entry, i);
  for (int rank = 1; rank < size; ++rank) {
    const double next = element_of(dtype, rank, entry, i);
    if (op == ReduceOp::sum) result += next;
    if (op == ReduceOp::product) result *= next;
    if (op == ReduceOp::min) result = std::min(result, next);
    if (op == ReduceOp::max) result = std::max(result, next);
  }
  return result;
}

std::string complain(const Status& status, const Bytes& got, const Bytes& want, const std::string& what) {
  if (!status.is_ok()) return what + ": " + status.message();
  return got == want ? "" : what + ": wrong result";
}

void check_all(const std::vector<std::string>& complaints) {
  for (const std::string& complaint : complaints) CHECK(complaint == "");
}

/// Runs an allreduce of entries of these lengths, in place or not. Returns the first complaint, or nothing.
std::string allreduce(GlooRank& self, DType dtype, ReduceOp op, const std::vector<std::size_t>& lengths,
                      bool in_place) {
  Batch batch;
  batch.op = op;
  batch.dtype = dtype;
  std::vector<Bytes> inputs, outputs;
  for (std::size_t entry = 0; entry < lengths.size(); ++entry) {
    const auto value = [&](std::size_t i) { return element_of(dtype, self.world.rank, entry, i); };
    inputs.push_back(make(dtype, lengths[entry], value));
    outputs.push_back(in_place ? inputs.back() : Bytes(inputs.back().size()));
  }
  for (std::size_t entry = 0; entry < lengths.size(); ++entry) {
    const void* const input = in_place ? outputs[entry].data() : inputs[entry].data();
    batch.entries.push_back(
        {input, outputs[entry].data(), static_cast<std::int64_t>(lengths[entry]), {}, {}});
  }
  const Status status = self.run(batch);
  for (std::size_t entry = 0; entry < lengths.size(); ++entry) {
    const auto value = [&](std::size_t i) { return reduced(op, dtype, self.world.size, entry, i); };
    const auto what = std::string(name_of(dtype)) + " " + std::string(name_of(op)) + " of " +
                      std::to_string(lengths[entry]);
    if (auto complaint = complain(status, outputs[entry], make(dtype, lengths[entry], value), what);
        !complaint.empty()) {
      return complaint;
    }
  }
  return "";
}

/// Rows that differ by rank, entry and peer; some are empty.
std::vector<std::int64_t> uneven(int size, std::size_t entry, int shift) {
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < size; ++rank)
    counts.push_back((rank * 7 + static_cast<int>(entry) * 3 + shift) % 5);
  return counts;
}
std::int64_t sum_of(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::string allgather(GlooRank& self, DType dtype, std::size_t entries, std::int64_t factor) {
  Batch batch;
  batch.kind = CollectiveKind::allgather;
  batch.dtype = dtype;
  std::vector<std::vector<std::int64_t>> counts;
  std::vector<Bytes> inputs, outputs, wants;
  for (std::size_t entry = 0; entry < entries; ++entry) {
    counts.push_back(uneven(self.world.size, entry, 1));
    for (auto& count : counts.back()) count *= factor;
    Bytes want;
    for (int rank = 0; rank < self.world.size; ++rank) {
      const auto part = make(dtype, static_cast<std::size_t>(counts[entry][static_cast<std::size_t>(rank)]),
                             [&](std::size_t i) { return element_of(dtype, rank, entry, i); });
      want.insert(want.end(), part.begin(), part.end());
      if (rank == self.world.rank) inputs.push_back(part);
    }
    outputs.emplace_back(want.size());
    wants.push_back(want);
  }
  for (std::size_t entry = 0; entry < entries; ++entry) {
    batch.entries.push_back({inputs[entry].data(),
                             outputs[entry].data(),
                             counts[entry][static_cast<std::size_t>(self.world.rank)],
                             counts[entry],
                             {}});
  }
  const Status status = self.run(batch);
  for (std::size_t entry = 0; entry < entries; ++entry) {
    if (auto c = complain(status, outputs[entry], wants[entry], "allgather " + std::string(name_of(dtype)));
        !c.empty())
      return c;
  }
  return "";
}

std::string broadcast(GlooRank& self, DType dtype, int root, const std::vector<std::size_t>& lengths,
                      bool in_place) {
  Batch batch;
  batch.kind = CollectiveKind::broadcast;
  batch.dtype = dtype;
  batch.root = root;
  std::vector<Bytes> inputs, outputs;
  for (std::size_t entry = 0; entry < lengths.size(); ++entry) {
    inputs.push_back(make(dtype, lengths[entry],
                          [&](std::size_t i) { return element_of(dtype, self.world.rank, entry, i); }));
    outputs.push_back(in_place ? inputs.back() : Bytes(inputs.back().size()));
  }
  for (std::size_t entry = 0; entry < lengths.size(); ++entry) {
    const void* const input = in_place ? outputs[entry].data() : inputs[entry].data();
    batch.entries.push_back(
        {input, outputs[entry].data(), static_cast<std::int64_t>(lengths[entry]), {}, {}});
  }
  const Status status = self.run(batch);
  for (std::size_t entry = 0; entry < lengths.size(); ++entry) {
    const auto want =
        make(dtype, lengths[entry], [&](std::size_t i) { return element_of(dtype, root, entry, i); });
    if (auto c = complain(status, outputs[entry], want, "broadcast " + std::string(name_of(dtype)));
        !c.empty())
      return c;
  }
  return "";
}

/// The rows that `from` sends to `to` in an alltoall.
std::int64_t block(int from, int to, std::size_t entry) {
  return (from * 3 + to * 5 + static_cast<int>(entry)) % 4;
}

std::string alltoall(GlooRank& self, DType dtype, std::size_t entries, bool in_place) {
  Batch batch;
  batch.kind = CollectiveKind::alltoall;
  batch.dtype = dtype;
  const int size = self.world.size;
  std::vector<std::vector<std::int64_t>> sends(entries), receives(entries);
  std::vector<Bytes> inputs, outputs, wants;
  const auto value_of = [&](int from, int to, std::size_t entry) {
    return [=](std::size_t i) { return element_of(dtype, from * 4 + to, entry, i); };
  };
  for (std::size_t entry = 0; entry < entries; ++entry) {
    Bytes input, want;
    for (int peer = 0; peer < size; ++peer) {
      // In place, a rank must receive as much as it sends.
      sends[entry].push_back(in_place ? 3 : block(self.world.rank, peer, entry));
      receives[entry].push_back(in_place ? 3 : block(peer, self.world.rank, entry));
      const auto sent =
          make(dtype, static_cast<std::size_t>(sends[entry].back()), value_of(self.world.rank, peer, entry));
      const auto received = make(dtype, static_cast<std::size_t>(receives[entry].back()),
                                 value_of(peer, self.world.rank, entry));
      input.insert(input.end(), sent.begin(), sent.end());
      want.insert(want.end(), received.begin(), received.end());
    }
    outputs.push_back(in_place ? input : Bytes(want.size()));
    inputs.push_back(input);
    wants.push_back(want);
  }
  for (std::size_t entry = 0; entry < entries; ++entry) {
    const void* const input = in_place ? outputs[entry].data() : inputs[entry].data();
    batch.entries.push_back(
        {input, outputs[entry].data(), sum_of(sends[entry]), receives[entry], sends[entry]});
  }
  const Status status = self.run(batch);
  for (std::size_t entry = 0; entry < entries; ++entry) {
    if (auto c = complain(status, outputs[entry], wants[entry], "alltoall " + std::string(name_of(dtype)));
        !c.empty())
      return c;
  }
  return "";
}

std::string reducescatter(GlooRank& self, DType dtype, ReduceOp op, std::size_t entries, bool in_place,
                          std::int64_t factor) {
  Batch batch;
  batch.kind = CollectiveKind::reducescatter;
  batch.dtype = dtype;
  batch.op = op;
  std::vector<std::vector<std::int64_t>> counts;
  std::vector<Bytes> inputs, outputs, wants;
  for (std::size_t entry = 0; entry < entries; ++entry) {
    counts.push_back(uneven(self.world.size, entry, 2));
    for (auto& count : counts.back()) count *= factor;
    const auto own = static_cast<std::size_t>(self.world.rank);
    const auto skipped = static_cast<std::size_t>(
        std::accumulate(counts[entry].begin(), counts[entry].begin() + self.world.rank, std::int64_t{0}));
    inputs.push_back(make(dtype, static_cast<std::size_t>(sum_of(counts[entry])),
                          [&](std::size_t i) { return element_of(dtype, self.world.rank, entry, i); }));
    wants.push_back(make(dtype, static_cast<std::size_t>(counts[entry][own]), [&](std::size_t i) {
      return reduced(op, dtype, self.world.size, entry, skipped + i);
    }));
    outputs.push_back(in_place ? inputs.back() : Bytes(wants.back().size()));
  }
  for (std::size_t entry = 0; entry < entries; ++entry) {
    const void* const input = in_place ? outputs[entry].data() : inputs[entry].data();
    batch.entries.push_back({input, outputs[entry].data(), sum_of(counts[entry]), counts[entry], {}});
  }
  const Status status = self.run(batch);
  for (std::size_t entry = 0; entry < entries; ++entry) {
    outputs[entry].resize(wants[entry].size());
    if (auto c =
            complain(status, outputs[entry], wants[entry], "reducescatter " + std::string(name_of(dtype)));
        !c.empty())
      return c;
  }
  return "";
}

/// Returns the first complaint of many calls.
template <class... Calls>
std::string first_of(Calls... calls) {
  std::string complaint;
  ((complaint.empty() ? void(complaint = calls()) : void()), ...);
  return complaint;
}

}  // namespace

TEST_CASE("gloo allreduces every dtype with every op, in place and not, alone and fused") {
  const int size = GENERATE(1, 2, 3, 4);
  check_all(run_on_ranks(size, [](GlooRank& self) {
    std::string complaint;
    for (const DType dtype : kDTypes) {
      for (const ReduceOp op : kOps) {
        for (const bool in_place : {true, false}) {
          for (const auto& lengths :
               std::vector<std::vector<std::size_t>>{{0}, {1}, {2}, {1001}, {3, 0, 1, 257}}) {
            if (complaint.empty()) complaint = allreduce(self, dtype, op, lengths, in_place);
          }
        }
      }
    }
    return complaint;
  }));
}

TEST_CASE("every allreduce algorithm of gloo sums tensors of its size") {
  const int size = GENERATE(2, 3, 4);
  check_all(run_on_ranks(size, [](GlooRank& self) {
    std::string complaint;
    for (const std::size_t length : {20000, 200001, 2000003}) {  // direct, bcube and ring, or slices
      if (complaint.empty()) complaint = allreduce(self, DType::f32, ReduceOp::sum, {length}, true);
      if (complaint.empty()) complaint = allreduce(self, DType::i16, ReduceOp::sum, {length, 7}, false);
    }
    return complaint;
  }));
}

TEST_CASE("an allreduce by slices takes several rounds, the last with fewer elements than ranks") {
  constexpr std::size_t kRound = ops::kGlooRoundBytes / sizeof(float);
  check_all(run_on_ranks(5, [](GlooRank& self) {
    const auto in_place = [&] { return allreduce(self, DType::f32, ReduceOp::sum, {kRound + 3}, true); };
    const auto elsewhere = [&] {
      return allreduce(self, DType::f32, ReduceOp::max, {kRound, kRound + 7}, false);
    };
    return test::kSanitized ? in_place() : first_of(in_place, elsewhere);
  }));
}

TEST_CASE("gloo gathers, broadcasts, exchanges and scatters uneven parts of every dtype") {
  const int size = GENERATE(1, 2, 3, 4);
  check_all(run_on_ranks(size, [](GlooRank& self) {
    std::string complaint;
    for (const DType dtype : kDTypes) {
      for (const std::size_t entries : {1, 3}) {
        for (const bool flag : {false, true}) {
          const std::vector<std::size_t> lengths =
              entries == 1 ? std::vector<std::size_t>{5} : std::vector<std::size_t>{5, 0, 100};
          const auto call = [&](auto function) {
            if (complaint.empty()) complaint = function();
          };
          call([&] { return allgather(self, dtype, entries, flag ? 400 : 1); });
          call([&] { return broadcast(self, dtype, flag ? self.world.size - 1 : 0, lengths, flag); });
          call([&] { return alltoall(self, dtype, entries, flag); });
          for (const ReduceOp op : kOps) {
            call([&] { return reducescatter(self, dtype, op, entries, flag, flag ? 1 : 300); });
          }
        }
      }
    }
    return complaint;
  }));
}

TEST_CASE("a reducescatter of many megabytes is received piece by piece and sums right") {
  check_all(run_on_ranks(3, [](GlooRank& self) {
    return first_of([&] { return reducescatter(self, DType::f32, ReduceOp::sum, 1, false, 200'003); },
                    [&] { return reducescatter(self, DType::f16, ReduceOp::max, 2, true, 300'001); });
  }));
}

TEST_CASE("collectives without elements run, whatever stands around them") {
  check_all(run_on_ranks(3, [](GlooRank& self) {
    return first_of(
        [&] {
          return allreduce(self, DType::f32, ReduceOp::sum, {0, 0}, false);
        },
        [&] { return allgather(self, DType::f32, 2, 0); },
        [&] { return broadcast(self, DType::u8, 1, {0}, true); },
        [&] { return reducescatter(self, DType::f64, ReduceOp::sum, 1, false, 0); },
        [&] { return allreduce(self, DType::f32, ReduceOp::sum, {1}, false); });
  }));
}

TEST_CASE("scales are applied before and after the reduction") {
  const std::size_t entries = GENERATE(1u, 3u);
  const auto kind = GENERATE(CollectiveKind::allreduce, CollectiveKind::reducescatter);
  const auto sums = run_on_ranks(4, [=](GlooRank& self) {
    Batch batch;
    batch.kind = kind;
    batch.dtype = DType::f32;
    batch.prescale = 0.5;
    batch.postscale = 3;
    const std::vector<std::int64_t> counts(4, 25);
    std::vector<std::vector<float>> inputs(entries,
                                           std::vector<float>(100, static_cast<float>(self.world.rank)));
    std::vector<std::vector<float>> outputs(entries,
                                            std::vector<float>(kind == CollectiveKind::allreduce ? 100 : 25));
    for (std::size_t i = 0; i < entries; ++i)
      batch.entries.push_back({inputs[i].data(), outputs[i].data(), 100, counts, {}});
    const Status status = self.run(batch);
    // The input must be unchanged.
    return status.is_ok() && inputs[0][0] == static_cast<float>(self.world.rank) ? outputs
                                                                                 : decltype(outputs){};
  });
  const auto length = kind == CollectiveKind::allreduce ? 100u : 25u;
  CHECK(sums ==
        std::vector(4, std::vector(entries, std::vector<float>(length, 9))));  // (0 + 1 + 2 + 3) / 2 * 3
}

TEST_CASE("sums that depend on their order have the same bits on all ranks") {
  const int size = GENERATE(2, 3, 4);
  const std::size_t length = GENERATE(1u, 2u, 3u, 5u, 17u, 1001u, 50001u, 130003u, 600001u, 1000003u);
  const auto dtype = GENERATE(DType::f32, DType::f16);
  const auto sums = run_on_ranks(size, [=](GlooRank& self) {
    const double values[] = {1e8, -1e8, 1, 3e-5};
    const auto value = [&](std::size_t i) {
      return values[(static_cast<std::size_t>(self.world.rank) + i) % 4] / (dtype == DType::f16 ? 3e3 : 1);
    };
    Bytes data(length * size_of(dtype) + 8);
    const std::size_t offset = size_of(dtype);  // one element off the alignment of vectors
    const Bytes filled = make(dtype, length, value);
    std::memcpy(data.data() + offset, filled.data(), filled.size());
    Batch batch;
    batch.dtype = dtype;
    batch.entries.push_back(
        {data.data() + offset, data.data() + offset, static_cast<std::int64_t>(length), {}, {}});
    return self.run(batch).is_ok() ? data : Bytes{};
  });
  CHECK_FALSE(sums[0].empty());
  for (const Bytes& sum : sums) CHECK((sum == sums[0]));
}

TEST_CASE("a barrier lets nobody pass before the last has come") {
  std::atomic<int> arrived = 0;
  const auto seen = run_on_ranks(4, [&arrived](GlooRank& self) {
    Batch batch;
    batch.kind = CollectiveKind::barrier;
    if (!self.run(batch).is_ok()) return -1;  // connects
    if (self.world.rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ++arrived;
    return self.run(batch).is_ok() ? arrived.load() : -1;
  });
  CHECK(seen == std::vector<int>(4, 4));
}

TEST_CASE("disjoint and overlapping process sets run side by side") {
  check_all(run_on_ranks(3, [](GlooRank& self) {
    ProcessSetInfo pair{1, {0, 2}, self.world.rank / 2};
    float sum = static_cast<float>(self.world.rank + 1);
    Batch batch;
    batch.entries.push_back({&sum, &sum, 1, {}, {}});
    if (self.world.rank != 1) {
      batch.process_set = &pair;
      if (Status status = self.run(batch); !status.is_ok()) return status.message();
      if (sum != 4) return std::string("the pair's sum is wrong");
    } else {
      self.order = 1;  // orders count over the job, and this rank had no part in this one
    }
    return allreduce(self, DType::i32, ReduceOp::sum, {5}, false);
  }));
}

TEST_CASE("a process set's id may be used again by other ranks") {
  check_all(run_on_ranks(3, [](GlooRank& self) {
    const std::vector<std::vector<Rank>> members = {{0, 1}, {1, 2}, {0, 1}, {0, 1, 2}, {1, 2}};
    std::uint64_t order = 0;  // counts over the job
    for (const auto& ranks : members) {
      ++order;
      const auto set_rank = std::ranges::find(ranks, self.world.rank);
      if (set_rank == ranks.end()) continue;
      ProcessSetInfo set{7, ranks, static_cast<int>(set_rank - ranks.begin())};
      std::int32_t sum = self.world.rank + 1;
      Batch batch;
      batch.order = order;
      batch.dtype = DType::i32;
      batch.process_set = &set;
      batch.entries.push_back({&sum, &sum, 1, {}, {}});
      const Status status = self.run(batch);
      if (!status.is_ok()) return status.message();
      std::int32_t want = 0;
      for (const Rank rank : ranks) want += rank + 1;
      if (sum != want) return std::string("wrong sum");
      self.release(7);
    }
    return std::string();
  }));
}

TEST_CASE("gloo runs host tensors of all collectives, and no average and no adasum") {
  GlooRank self(0, test::on_one_host(1), store::make_memory_store());
  CHECK(self.backend->name() == "gloo");
  for (const CollectiveKind kind :
       {CollectiveKind::allreduce, CollectiveKind::allgather, CollectiveKind::broadcast,
        CollectiveKind::alltoall, CollectiveKind::reducescatter, CollectiveKind::barrier}) {
    for (const DType dtype : kDTypes)
      CHECK(self.backend->can_run({.kind = kind, .dtype = dtype, .op = ReduceOp::product}, {}));
    CHECK_FALSE(self.backend->can_run({.kind = kind, .device_type = DeviceType::cuda}, {}));
  }
  CHECK_FALSE(self.backend->can_run({.op = ReduceOp::average}, {}));
  CHECK_FALSE(self.backend->can_run({.op = ReduceOp::adasum}, {}));
  CHECK_FALSE(self.backend->can_run({.kind = CollectiveKind::join}, {}));
}

TEST_CASE("a backend that this build lacks is refused with the names of those that it has") {
  GlooRank self(0, test::on_one_host(1), store::make_memory_store());
  const auto with = [&](const std::string& name) {
    self.config.cpu_operations = name;
    return ops::make_host_backends(
        {self.world, self.config, store::make_memory_store(), self.fork_guard, Log()});
  };
  CHECK(with("auto").is_ok());
  CHECK(with("gloo").is_ok());
  CHECK(with("shm").is_ok());
  CHECK(with("tcp").is_ok());
  // NCCL does not serve host tensors, whether it is in this build or not.
  const std::string name = GENERATE("nccl", "pigeons");
  const Status status = with(name).status();
  CHECK(status.code() == Code::not_built);
  CHECK_THAT(status.message(),
             StartsWith("DABKE_CPU_OPERATIONS=" + name + ": this build has no such backend"));
  CHECK_THAT(status.message(), Contains("gloo") && !Contains(", nccl"));
}

}  // namespace dabke::test

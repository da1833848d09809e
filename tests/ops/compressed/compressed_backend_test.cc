// Error bounds, bits and ranges of allreduces that travel as 16 bits.
#include "ops/compressed/compressed_backend.h"

#include <cmath>
#include <random>

#include <catch2/catch.hpp>

#include "runtime/kernels/kernels.h"
#include "tests/ops/rank_threads.h"

namespace dabke::test {
namespace {

std::vector<float> numbers(int rank, std::size_t elements) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::uniform_real_distribution<float> any(-1, 1);
  std::vector<float> values(elements);
  for (float& value : values) value = any(random);
  return values;
}

/// Half a unit in the last place of 1: float16 has 11 significant bits, bfloat16 has 8.
double unit_of(Compression compression) { return compression == Compression::float16 ? 0x1p-11 : 0x1p-8; }

float rounded(Compression compression, float value) {
  std::uint16_t bits = 0;
  kernels::convert(wire_dtype(compression), &bits, DType::f32, &value, 1);
  kernels::convert(DType::f32, &value, wire_dtype(compression), &bits, 1);
  return value;
}

std::vector<float> sum(RankThread& self, std::vector<float> data, Compression compression,
                       double postscale = 1) {
  Batch batch;
  batch.compression = compression;
  batch.postscale = postscale;
  batch.entries.push_back({data.data(), data.data(), static_cast<std::int64_t>(data.size()), {}, {}});
  if (const Status status = self.run(batch); !status.is_ok()) throw std::runtime_error(status.message());
  return data;
}

}  // namespace

TEST_CASE("a compressed sum is off by two roundings at most, and has the same bits on all ranks") {
  const int ranks = GENERATE(2, 3, 5);
  const Compression compression = GENERATE(Compression::float16, Compression::bfloat16);
  CAPTURE(ranks, name_of(compression));
  constexpr std::size_t kMany = 100003, kFew = 1000;  // in slices, and all at once
  const auto seen = run_on_hosts("compressed", one_rank_a_host(ranks), [&](RankThread& self) {
    auto few = numbers(self.world.rank, kMany);
    few.resize(kFew);
    return std::pair(sum(self, numbers(self.world.rank, kMany), compression), sum(self, few, compression));
  });
  for (const auto& one : seen) CHECK(one == seen.front());
  const std::vector<float>& many = seen.front().first;
  // The result of an element depends on its values, not on the other elements of the batch.
  CHECK(std::vector<float>(many.begin(), many.begin() + kFew) == seen.front().second);

  std::vector<double> want(kMany, 0), size(kMany, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto mine = numbers(rank, kMany);
    for (std::size_t i = 0; i < kMany; ++i) {
      want[i] += mine[i];
      size[i] += std::abs(mine[i]);
    }
  }
  std::size_t too_far = 0, not_rounded = 0;
  const double u = unit_of(compression);
  for (std::size_t i = 0; i < kMany; ++i) {
    // Each contribution is rounded (u), and the sum of the rounded ones is rounded again (u). The errors of
    // float32 additions and of subnormals are far smaller.
    const double bound = size[i] * (2 * u + u * u + 1e-6) + 1e-6;
    too_far += std::abs(many[i] - want[i]) > bound ? 1 : 0;
    not_rounded += many[i] != rounded(compression, many[i]) ? 1 : 0;
  }
  CHECK(too_far == 0);
  CHECK(not_rounded == 0);
}

TEST_CASE("an average of large numbers does not overflow on its way as float16") {
  const auto seen = run_on_hosts("compressed", one_rank_a_host(4), [](RankThread& self) {
    return sum(self, std::vector<float>(10, 60000), Compression::float16, 0.25);
  });
  for (const auto& one : seen) CHECK(one == std::vector<float>(10, 60000));
}

TEST_CASE("only what is float32, reduced, asked for and between hosts is compressed") {
  const auto seen = run_on_hosts("compressed", {"a", "a", "b"}, [](RankThread& self) {
    CallSpec call;
    std::vector<bool> runs{self.backend->can_run(call, {4, 3})};
    call.compression = Compression::float16;
    runs.push_back(self.backend->can_run(call, {4, 3}));
    call.dtype = DType::f64;
    runs.push_back(self.backend->can_run(call, {4, 3}));
    call.dtype = DType::f32;
    call.kind = CollectiveKind::broadcast;
    runs.push_back(self.backend->can_run(call, {4, 3}));
    runs.push_back(self.backend->can_serve({1, {0, 1}, 0}));
    runs.push_back(self.backend->can_serve({1, {1, 2}, 0}));
    return runs;
  });
  for (const auto& runs : seen) CHECK(runs == std::vector<bool>{false, true, false, false, false, true});
}

TEST_CASE("inside a host a compressed allreduce adds in float32") {
  const std::size_t elements = GENERATE(3u, 200000u);
  const auto seen = run_on_hosts("hierarchical", {"a", "a", "b", "b"}, [&](RankThread& self) {
    // float16 cannot hold 1 + 2^-12 of the first rank of a host, but it can hold the host's sum: 1 + 2^-10.
    const float mine = self.world.rank % 2 == 0 ? 1 + 0x1p-12f : 0x1.8p-11f;
    return sum(self, std::vector<float>(elements, mine), Compression::float16);
  });
  for (const auto& one : seen) CHECK(one == std::vector<float>(elements, 2 + 0x1p-9f));
}

}  // namespace dabke::test

// Every collective x dtype x reduce op x size x length, over every backend, fused and not, in random orders.
#include <algorithm>
#include <random>

#include <catch2/catch.hpp>

#include "tests/conformance/cases.h"
#include "tests/conformance/matrix.h"
#include "tests/in_process/job.h"
#include "tests/patience.h"
#include "tests/seed.h"

namespace dabke::test {
namespace {

void check_cases(Job& job, std::vector<Case> cases, std::size_t together) {
  const unsigned seed = seed_of_run();
  std::ranges::shuffle(cases, std::mt19937(seed));
  const auto wrong = job.run([&](Rank& self) { return run_cases(self, cases, seed, together); });
  INFO("DABKE_TEST_SEED=" << seed);
  for (const auto& of_rank : wrong) {
    for (const std::string& what : of_rank) UNSCOPED_INFO(what);
    CHECK(of_rank.empty());
  }
}

struct Shape {
  Setup backend;
  int ranks;
  std::int64_t fusion_threshold;
};

/// The numbers of ranks; under a sanitizer, only those with another rank to race with.
std::vector<int> sizes() { return test::kSanitized ? std::vector{2, 3, 4} : std::vector{1, 2, 3, 4}; }

/// Every backend with every size and every fusion threshold. If pairs are enough, each backend has each size
/// with one threshold, which depends on the seed. Under a sanitizer, every backend runs once.
std::vector<Shape> shapes_of_jobs() {
  const auto backends = every_backend();
  const std::int64_t thresholds[] = {0, Config{}.fusion_threshold};
  const unsigned seed = seed_of_run();
  const std::vector<int> counts = {static_cast<int>(backends.size()), static_cast<int>(sizes().size()), 2};
  std::vector<Shape> shapes;
  for (const auto& row :
       test::kSanitized ? each_choice(counts, seed) : choose_rows(counts, jobs_are_pairwise())) {
    shapes.push_back({backends[static_cast<std::size_t>(row[0])], sizes()[static_cast<std::size_t>(row[1])],
                      thresholds[(static_cast<unsigned>(row[2]) + seed) % 2]});
  }
  return shapes;
}

struct LargeShape {
  Setup backend;
  int ranks;
  std::vector<DType> dtypes;
};

/// Every backend with every size. A job has all dtypes or, if pairs are enough, one of them in turn. Under a
/// sanitizer, every backend runs once.
std::vector<LargeShape> shapes_of_large_jobs() {
  const std::vector<DType> all = {DType::f32, DType::bf16, DType::i64, DType::u8};
  const auto backends = every_backend();
  const std::vector<int> counts = {static_cast<int>(backends.size()), static_cast<int>(sizes().size())};
  std::vector<LargeShape> shapes;
  for (const auto& row : test::kSanitized ? each_choice(counts, seed_of_run()) : choose_rows(counts, false)) {
    const std::size_t made = shapes.size();
    shapes.push_back({backends[static_cast<std::size_t>(row[0])], sizes()[static_cast<std::size_t>(row[1])],
                      cases_are_pairwise() ? std::vector{all[(made + made / 4) % all.size()]} : all});
  }
  return shapes;
}

}  // namespace

TEST_CASE("every collective gives what arithmetic says, for every dtype, reduce op, size and length") {
  const auto [backend, ranks, fusion_threshold] = GENERATE(from_range(shapes_of_jobs()));
  CAPTURE(backend, ranks, fusion_threshold);
  Config config = quiet_config();
  config.fusion_threshold = fusion_threshold;
  Job job(backend, ranks, config);
  check_cases(job, cases_for(ranks, backend.name == "threads"), 128);
}

TEST_CASE("large tensors give what arithmetic says, alone and among small ones") {
  const auto [backend, ranks, dtypes] = GENERATE(from_range(shapes_of_large_jobs()));
  CAPTURE(backend, ranks);
  constexpr std::int64_t kLarge = std::int64_t{1} << 18;
  std::vector<Case> cases;
  const auto add = [&](Case one) {
    one.number = static_cast<int>(cases.size());
    cases.push_back(one);
  };
  for (const DType dtype : dtypes) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
      add({.kind = CollectiveKind::allreduce,
           .dtype = dtype,
           .op = op,
           .length = kLarge,
           .in_place = op == ReduceOp::sum});
    }
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::product, ReduceOp::bitwise_xor}) {
      if (is_defined(op, dtype))
        add({.kind = CollectiveKind::reducescatter, .dtype = dtype, .op = op, .length = kLarge / 4 + 1});
    }
    for (const bool is_given : {false, true}) {
      for (const CollectiveKind kind : {CollectiveKind::allgather, CollectiveKind::alltoall}) {
        add({.kind = kind,
             .dtype = dtype,
             .length = kLarge / 8,
             .in_place = !is_given,
             .rows = Case::Rows::uneven});
      }
    }
    add({.kind = CollectiveKind::broadcast, .dtype = dtype, .length = kLarge, .root = ranks - 1});
    for (int i = 0; i < 6; ++i)
      add({.kind = CollectiveKind::allreduce, .dtype = dtype, .length = 1 + i * 100});
  }
  Job job(backend, ranks);
  check_cases(job, cases, 16);
}

TEST_CASE("disjoint, overlapping and circular process sets run side by side in any order of submission") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const std::vector<std::vector<int>> sets = GENERATE(std::vector<std::vector<int>>{{0, 1}, {2, 3}},
                                                      std::vector<std::vector<int>>{{0, 1, 2}, {1, 2, 3}},
                                                      std::vector<std::vector<int>>{{0, 1}, {1, 2}, {0, 2}},
                                                      std::vector<std::vector<int>>{{3}, {0, 3}, {1, 3}});
  CAPTURE(backend, sets);
  Job job(backend, 4);
  const auto ids = job.run([&](Rank& self) {
    std::vector<ProcessSetId> made;
    for (const auto& ranks : sets) made.push_back(self.add_process_set(ranks));
    return made;
  });
  CHECK(ids == std::vector(4, ids.front()));

  std::vector<Case> cases;
  for (int round = 0; round < (test::kSanitized ? 4 : 10); ++round) {
    for (std::size_t set = 0; set <= sets.size(); ++set) {  // the last round uses the world
      for (const CollectiveKind kind :
           {CollectiveKind::allreduce, CollectiveKind::allgather, CollectiveKind::broadcast,
            CollectiveKind::alltoall, CollectiveKind::reducescatter}) {
        Case one{.kind = kind, .op = round % 2 ? ReduceOp::average : ReduceOp::sum, .length = 5 + round};
        if (set < sets.size()) {
          one.set = ids.front()[set];
          one.set_ranks = sets[set];
        }
        one.number = static_cast<int>(cases.size());
        one.root = one.number % (set < sets.size() ? static_cast<int>(sets[set].size()) : 4);
        cases.push_back(one);
      }
    }
  }
  check_cases(job, cases, cases.size());
}

TEST_CASE("the cases that were chosen by pairs let every two values of two parameters meet") {
  const std::vector<int> counts = {4, 3, 2, 5};
  const auto rows = choose_rows(counts, true);
  CHECK(rows.size() < choose_rows(counts, false).size() / 2);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    for (std::size_t j = i + 1; j < counts.size(); ++j) {
      for (int a = 0; a < counts[i]; ++a) {
        for (int b = 0; b < counts[j]; ++b) {
          CHECK(std::ranges::any_of(rows, [&](const auto& row) { return row[i] == a && row[j] == b; }));
        }
      }
    }
  }
}

TEST_CASE(
    "the jobs that a sanitizer sees have each value of each parameter, and another that it meets with each "
    "seed") {
  const std::vector<int> counts = {4, 3, 2, 5};
  const auto rows = each_choice(counts, 1);
  CHECK(rows.size() == 5);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    for (int value = 0; value < counts[i]; ++value) {
      CHECK(std::ranges::any_of(rows, [&](const auto& row) { return row[i] == value; }));
    }
  }
  CHECK(each_choice(counts, 1) == rows);
  CHECK(std::ranges::any_of(std::vector{2u, 3u, 4u, 5u},
                            [&](unsigned seed) { return each_choice(counts, seed) != rows; }));
}

}  // namespace dabke::test

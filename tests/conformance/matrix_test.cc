// Every collective x dtype x reduce op x size x length, over every backend, fused and not, in random orders.
#include <algorithm>
#include <cstdlib>
#include <random>

#include <catch2/catch.hpp>

#include "tests/conformance/case.h"
#include "tests/conformance/matrix.h"
#include "tests/in_process/job.h"

namespace dabke::testing {
namespace {

constexpr std::int64_t kLengths[] = {0, 1, 7, 1001};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max,
                             ReduceOp::product};
constexpr double kScales[][2] = {{1, 1}, {0.5, 1}, {1, 2}, {3, 0.5}};
constexpr Case::Rows kRows[] = {Case::Rows::alike, Case::Rows::uneven, Case::Rows::one_rank};

template <class T, std::size_t n>
constexpr int count_of(const T (&)[n]) {
  return static_cast<int>(n);
}
constexpr int kDTypeCount = static_cast<int>(kDTypes.size());

unsigned seed_of_run() {
  const char* given = std::getenv("DABKE_TEST_SEED");
  return given ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
}

/// Rows over `counts` as cases; `fill` gives each its parameters, or says that there is no such case.
template <class Fill>
void add_cases(std::vector<Case>& cases, CollectiveKind kind, std::vector<int> counts, Fill fill) {
  for (const std::vector<int>& row : choose_rows(counts, matrix_is_pairwise())) {
    Case one{.kind = kind};
    if (!fill(one, row)) continue;
    one.number = static_cast<int>(cases.size());
    cases.push_back(one);
  }
}

/// Every case has one placement and pair of scales, another for its neighbours in dtype, op, length and size.
bool is_typical(const std::vector<int>& row, int ranks) {
  return (row[0] * 31 + row[1] * 17 + row[2] * 7 + ranks * 3) % 8 == row[3] * 2 + row[4];
}

/// With `thorough` every case comes with every placement and pair of scales, which is too much for a slow
/// backend.
std::vector<Case> cases_for(int ranks, bool thorough) {
  std::vector<Case> cases;
  for (const int tensors : {1, 3}) {
    for (const CollectiveKind kind : {CollectiveKind::allreduce, CollectiveKind::reducescatter}) {
      const int ops = kind == CollectiveKind::allreduce ? count_of(kOps) : 2;
      const std::vector<int> counts = {kDTypeCount, ops, count_of(kLengths), count_of(kScales), 2};
      add_cases(cases, kind, counts, [&](Case& one, const std::vector<int>& row) {
        one.tensors = tensors;
        one.dtype = kDTypes[static_cast<std::size_t>(row[0])];
        one.op = kOps[row[1]];
        one.length = kLengths[row[2]];
        one.prescale = kScales[row[3]][0];
        one.postscale = kScales[row[3]][1];
        one.in_place = row[4] == 0;
        if (one.dtype == DType::b8 && one.op == ReduceOp::average) return false;
        return thorough || matrix_is_pairwise() || is_typical(row, ranks);
      });
    }
    add_cases(cases, CollectiveKind::allgather, {kDTypeCount, count_of(kLengths), count_of(kRows)},
              [&](Case& one, const std::vector<int>& row) {
                one.tensors = tensors;
                one.dtype = kDTypes[static_cast<std::size_t>(row[0])];
                one.length = kLengths[row[1]];
                one.rows = kRows[row[2]];
                return true;
              });
  }
  add_cases(cases, CollectiveKind::broadcast, {kDTypeCount, count_of(kLengths), ranks, 2},
            [](Case& one, const std::vector<int>& row) {
              one.dtype = kDTypes[static_cast<std::size_t>(row[0])];
              one.length = kLengths[row[1]];
              one.root = row[2];
              one.in_place = row[3] == 0;
              return true;
            });
  add_cases(cases, CollectiveKind::alltoall, {kDTypeCount, count_of(kLengths), count_of(kRows)},
            [](Case& one, const std::vector<int>& row) {
              one.dtype = kDTypes[static_cast<std::size_t>(row[0])];
              one.length = kLengths[row[1]];
              one.rows = kRows[row[2]];
              return true;
            });
  return cases;
}

/// Submits the cases in an order of this rank's own, `together` at a time, and says what came out wrong.
std::vector<std::string> run_cases(Rank& self, const std::vector<Case>& cases, unsigned seed,
                                   std::size_t together) {
  std::mt19937 random(seed + static_cast<unsigned>(self.rank()) * 7919);
  std::vector<std::string> wrong;
  for (std::size_t first = 0; first < cases.size(); first += together) {
    std::vector<CaseRun> runs;
    for (std::size_t i = first; i < std::min(cases.size(), first + together); ++i) {
      const Case& one = cases[i];
      const bool mine =
          one.set_ranks.empty() || std::ranges::find(one.set_ranks, self.rank()) != one.set_ranks.end();
      if (mine) runs.emplace_back(one, self);
    }
    std::ranges::shuffle(runs, random);
    for (CaseRun& run : runs) run.submit();
    std::ranges::shuffle(runs, random);
    for (CaseRun& run : runs) {
      if (std::string what = run.finish(); !what.empty()) wrong.push_back(std::move(what));
    }
    if (wrong.size() > 10) break;
  }
  return wrong;
}

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

}  // namespace

TEST_CASE("every collective gives what arithmetic says, for every dtype, reduce op, size and length") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const int ranks = GENERATE(1, 2, 3, 4);
  const std::int64_t fusion_threshold = GENERATE(0, Config{}.fusion_threshold);
  CAPTURE(backend, ranks, fusion_threshold);
  Config config = quiet_config();
  config.fusion_threshold = fusion_threshold;
  Job job(backend, ranks, config);
  check_cases(job, cases_for(ranks, backend.name == "threads"), 128);
}

TEST_CASE("large tensors give what arithmetic says, alone and among small ones") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const int ranks = GENERATE(1, 2, 3, 4);
  CAPTURE(backend, ranks);
  constexpr std::int64_t kLarge = std::int64_t{1} << 18;
  std::vector<Case> cases;
  const auto add = [&](Case one) {
    one.number = static_cast<int>(cases.size());
    cases.push_back(one);
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::i64, DType::u8}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
      add({.kind = CollectiveKind::allreduce,
           .dtype = dtype,
           .op = op,
           .length = kLarge,
           .in_place = op == ReduceOp::sum});
    }
    add({.kind = CollectiveKind::reducescatter, .dtype = dtype, .length = kLarge / 4 + 1});
    add({.kind = CollectiveKind::allgather,
         .dtype = dtype,
         .length = kLarge / 8,
         .rows = Case::Rows::uneven});
    add({.kind = CollectiveKind::broadcast, .dtype = dtype, .length = kLarge, .root = ranks - 1});
    add({.kind = CollectiveKind::alltoall, .dtype = dtype, .length = kLarge / 8, .rows = Case::Rows::uneven});
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
  for (int round = 0; round < 10; ++round) {
    for (std::size_t set = 0; set <= sets.size(); ++set) {  // the last one is the world
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

}  // namespace dabke::testing

#include "tests/conformance/cases.h"

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "tests/conformance/matrix.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

constexpr std::int64_t kLengths[] = {0, 1, 7, 1001};
/// All but adasum, which is not implemented.
constexpr auto kOps = [] {
  std::array<ReduceOp, kReduceOps.size() - 1> ops{};
  std::ranges::remove_copy(kReduceOps, ops.begin(), ReduceOp::adasum);
  return ops;
}();
constexpr double kScales[][2] = {{1, 1}, {0.5, 1}, {1, 2}, {3, 0.5}};
constexpr Case::Rows kRows[] = {Case::Rows::alike, Case::Rows::uneven, Case::Rows::one_rank};

template <class T, std::size_t n>
constexpr int count_of(const T (&)[n]) {
  return static_cast<int>(n);
}
constexpr int kDTypeCount = static_cast<int>(kDTypes.size());

/// Chosen once for all jobs, because choosing takes longer than most jobs.
const std::vector<std::vector<int>>& rows_over(const std::vector<int>& counts) {
  static std::map<std::vector<int>, std::vector<std::vector<int>>> chosen;
  const auto [place, is_new] = chosen.try_emplace(counts);
  if (is_new) place->second = choose_rows(counts, cases_are_pairwise());
  return place->second;
}

/// Adds a case for each row over `counts`. `fill` sets its parameters, or
/// returns false if there is no such case.
template <class Fill>
void add_cases(std::vector<Case>& cases, CollectiveKind kind, const std::vector<int>& counts, Fill fill) {
  for (const std::vector<int>& row : rows_over(counts)) {
    Case one{.kind = kind};
    if (!fill(one, row)) continue;
    one.number = static_cast<int>(cases.size());
    cases.push_back(one);
  }
}

/// True for one placement and pair of scales in each case. A neighbouring
/// dtype, op, length or size has another.
bool is_typical(const std::vector<int>& row, int ranks) {
  return (row[0] * 31 + row[1] * 17 + row[2] * 7 + ranks * 3) % 8 == row[3] * 2 + row[4];
}

/// True if the caller provides the output. A neighbouring dtype, length, rows or size has the opposite.
bool is_given(const std::vector<int>& row, int ranks) { return (row[0] + row[1] + row[2] + ranks) % 2 == 0; }

}  // namespace

std::vector<Case> cases_for(int ranks, bool thorough) {
  std::vector<Case> cases;
  for (const int tensors : {1, 3}) {
    if (test::kSanitized && (ranks + tensors / 2) % 2 == 0)
      continue;  // each number of ranks runs either single tensors or groups
    for (const CollectiveKind kind : {CollectiveKind::allreduce, CollectiveKind::reducescatter}) {
      const std::vector<int> counts = {kDTypeCount, static_cast<int>(kOps.size()), count_of(kLengths),
                                       count_of(kScales), 2};
      add_cases(cases, kind, counts, [&](Case& one, const std::vector<int>& row) {
        one.tensors = tensors;
        one.dtype = kDTypes[static_cast<std::size_t>(row[0])];
        one.op = kOps[static_cast<std::size_t>(row[1])];
        one.length = kLengths[row[2]];
        one.prescale = kScales[row[3]][0];
        one.postscale = kScales[row[3]][1];
        one.in_place = row[4] == 0;
        if (!is_defined(one.op, one.dtype)) return false;
        const bool has_all = thorough && row[1] < (kind == CollectiveKind::allreduce ? 5 : 2);
        return has_all || cases_are_pairwise() || is_typical(row, ranks);
      });
    }
    add_cases(cases, CollectiveKind::allgather, {kDTypeCount, count_of(kLengths), count_of(kRows)},
              [&](Case& one, const std::vector<int>& row) {
                one.tensors = tensors;
                one.dtype = kDTypes[static_cast<std::size_t>(row[0])];
                one.length = kLengths[row[1]];
                one.rows = kRows[row[2]];
                one.in_place = !is_given(row, ranks + tensors);
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
            [&](Case& one, const std::vector<int>& row) {
              one.dtype = kDTypes[static_cast<std::size_t>(row[0])];
              one.length = kLengths[row[1]];
              one.rows = kRows[row[2]];
              one.in_place = !is_given(row, ranks);
              return true;
            });
  return cases;
}

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

}  // namespace dabke::test

#include "tests/conformance/matrix.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>

namespace dabke::test {
namespace {

using Row = std::vector<int>;
using Pair = std::tuple<std::size_t, int, std::size_t, int>;  // two parameters and their values

std::vector<Row> all_rows(const std::vector<int>& counts) {
  std::vector<Row> rows = {{}};
  for (const int count : counts) {
    std::vector<Row> longer;
    for (const Row& row : rows) {
      for (int value = 0; value < count; ++value) {
        longer.push_back(row);
        longer.back().push_back(value);
      }
    }
    rows = std::move(longer);
  }
  return rows;
}

std::vector<Pair> pairs_of(const Row& row) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < row.size(); ++i) {
    for (std::size_t j = i + 1; j < row.size(); ++j) pairs.emplace_back(i, row[i], j, row[j]);
  }
  return pairs;
}

/// The value of DABKE_TEST_MATRIX; empty if it is not set.
std::string matrix() {
  const char* value = std::getenv("DABKE_TEST_MATRIX");
  const std::string text = value ? value : "";
  if (text != "" && text != "pairwise" && text != "full")
    throw std::runtime_error("DABKE_TEST_MATRIX is '" + text + "', but must be full or pairwise");
  return text;
}

}  // namespace

bool jobs_are_pairwise() { return matrix() != "full"; }
bool cases_are_pairwise() { return matrix() == "pairwise"; }

/// A greedy choice: each time the row with the most pairs that no chosen row has.
std::vector<Row> choose_rows(const std::vector<int>& counts, bool pairwise) {
  const std::vector<Row> all = all_rows(counts);
  if (!pairwise || counts.size() < 2) return all;
  std::set<Pair> open;
  for (const Row& row : all) {
    for (const Pair& pair : pairs_of(row)) open.insert(pair);
  }
  std::vector<Row> chosen;
  while (!open.empty()) {
    const Row* best = nullptr;
    std::size_t best_met = 0;
    for (const Row& row : all) {
      std::size_t met = 0;
      for (const Pair& pair : pairs_of(row)) met += open.count(pair);
      if (met > best_met) {
        best = &row;
        best_met = met;
      }
    }
    for (const Pair& pair : pairs_of(*best)) open.erase(pair);
    chosen.push_back(*best);
  }
  return chosen;
}

std::vector<Row> each_choice(const std::vector<int>& counts, unsigned seed) {
  std::vector<Row> rows(static_cast<std::size_t>(std::ranges::max(counts)));
  std::mt19937 random(seed);
  for (const int count : counts) {
    Row order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].push_back(order[i % order.size()]);
  }
  return rows;
}

}  // namespace dabke::test

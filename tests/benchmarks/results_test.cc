#include "benchmarks/perf/report/results.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "benchmarks/perf/competitors/call.h"
#include "benchmarks/perf/report/table.h"
#include "benchmarks/perf/report/targets.h"

namespace dabke::test {
using namespace perf;
namespace {

Row row(const std::string& competitor, std::vector<double> times_us, std::int64_t bytes = 1 << 20) {
  return {.job = "mpich",
          .mode = "sweep",
          .path = "raw",
          .competitor = competitor,
          .collective = "allreduce",
          .dtype = "float32",
          .op = "sum",
          .in_place = true,
          .ranks = 2,
          .cores = 2,
          .bytes = bytes,
          .count = bytes / 4,
          .iterations = 10,
          .wrong = 0,
          .times_us = std::move(times_us)};
}

}  // namespace

TEST_CASE("a ratio is the median of what each run says, not the ratio of the medians") {
  // The whole machine was ten times as slow in the second run.
  CHECK(paired_ratio({20, 300, 22}, {10, 100, 11}) == 2);
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 2, 3}) == 2.5);
}

TEST_CASE("bandwidths are those of nccl-tests") {
  Row of_four = row("dabke shm", {1000}, 4'000'000);
  of_four.ranks = 4;
  CHECK(algorithm_bandwidth(of_four) == Approx(4));
  CHECK(bus_bandwidth(of_four) == Approx(6));
  of_four.collective = "allgather";
  CHECK(bus_bandwidth(of_four) == Approx(3));
  of_four.collective = "broadcast";
  CHECK(bus_bandwidth(of_four) == Approx(4));
}

TEST_CASE("shared memory is compared with those of its own job, each with its target") {
  std::vector<Row> rows = {row("dabke shm", {100}), row("raw mpich", {149}), row("raw gloo", {330}),
                           row("memcpy", {80}),     row("bound", {20}),      row("raw openmpi", {1000})};
  rows.back().job = "openmpi";
  CHECK(!target_of(rows[1], rows)->is_met());
  CHECK(target_of(rows[2], rows)->is_met());
  CHECK(target_of(rows[3], rows)->is_met());  // 1.25 copies
  CHECK(!target_of(rows[4], rows));
  CHECK(!target_of(rows[5], rows));  // its job has no shared memory to compare with
}

TEST_CASE("in registered memory an allreduce is compared with the bound") {
  std::vector<Row> rows = {row("dabke shm", {100}, 16 << 20), row("bound", {92}, 16 << 20)};
  CHECK(!target_of(rows[1], rows));
  for (Row& each : rows) each.memory = "dabke";
  CHECK(target_of(rows[1], rows)->is_met());
  rows[1].times_us = {89};
  CHECK(!target_of(rows[1], rows)->is_met());
  rows = {row("dabke shm", {100}, 1 << 20), row("bound", {51}, 1 << 20)};
  for (Row& each : rows) each.memory = "dabke";
  CHECK(target_of(rows[1], rows)->is_met());
}

TEST_CASE("steps with a timeline are compared with those without, run by run") {
  Row steps = row("dabke shm", {100, 1000});
  steps.mode = "steps";
  steps.more["flat_us"] = {90, 900};
  CHECK(target_of(steps, {steps})->limit == 1.15);
  steps.more["timeline_us"] = {101, 1010};
  CHECK(target_of(steps, {steps})->value == Approx(1.01));
  CHECK(target_of(steps, {steps})->is_met());
}

TEST_CASE("more ranks than cores may take more copies, and what fits the caches is not compared with one") {
  std::vector<Row> rows = {row("dabke shm", {100}), row("memcpy", {70})};
  CHECK(!target_of(rows[1], rows)->is_met());
  for (Row& each : rows) each.ranks = 4;
  CHECK(target_of(rows[1], rows)->is_met());
  const std::vector<Row> small = {row("dabke shm", {100}, 1024), row("memcpy", {1}, 1024)};
  CHECK(!target_of(small[1], small));
}

TEST_CASE("rows come out of JSON as they went in") {
  Row one = row("dabke shm", {1.5, 2.5});
  one.more["p99_us"] = {7};
  one.detail = "ring";
  const auto again = rows_from_json(to_json({one}));
  REQUIRE(again.size() == 1);
  CHECK(to_json(again) == to_json({one}));
  CHECK(again[0].times_us == one.times_us);
  CHECK(again[0].more == one.more);
}

TEST_CASE("a table has no line of more than 120 columns") {
  std::vector<Row> rows = {row("dabke shm", {123456.7, 987654.3}, 1 << 30),
                           row("raw gloo", {9876543.2}, 1 << 30)};
  rows[1].detail = "ring chunked";
  const std::string text = to_table(rows, Options());
  std::size_t longest = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (text[begin] != '#') longest = std::max(longest, end - begin);
    begin = end + 1;
  }
  CAPTURE(text);
  CHECK(longest <= 120);
  CHECK_THAT(text, Catch::Contains("raw gloo, ring chunked"));
}

}  // namespace dabke::test

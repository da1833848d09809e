// Ranks with uneven data: a rank that has none left joins, and the others go on.
#include <algorithm>
#include <limits>
#include <semaphore>

#include <catch2/catch.hpp>

#include "tests/conformance/values.h"
#include "tests/in_process/job.h"

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;

constexpr int kRanks = 3;

/// Rank r has r + 1 steps; in step s the ranks from s on take part.
int steps_of(int rank) { return rank + 1; }

struct Seen {
  std::vector<std::vector<double>> results;  // by step
  int last = -1;
};

}  // namespace

TEST_CASE("a joined rank counts in no reduction, and join returns the last rank") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto op = GENERATE(ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product);
  const double prescale = GENERATE(1.0, 2.0);
  CAPTURE(backend, name_of(op), prescale);
  const auto seen = run_on_ranks(backend, kRanks, [&](Rank& self) {
    Seen out;
    for (int step = 0; step < steps_of(self.rank()); ++step) {
      std::vector<double> x(5, self.rank() - 1.5);
      must(self.allreduce(x, {.name = "step " + std::to_string(step), .op = op, .prescale = prescale}));
      out.results.push_back(x);
    }
    out.last = must(self.join());
    std::vector<double> after = {1};
    must(self.allreduce(after, {.name = "after"}));
    out.results.push_back(after);
    return out;
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    const Seen& one = seen[static_cast<std::size_t>(rank)];
    CHECK(one.last == kRanks - 1);
    CHECK(one.results.back() == std::vector<double>{kRanks});
    for (int step = 0; step < steps_of(rank); ++step) {
      std::vector<double> terms;
      for (int other = step; other < kRanks; ++other) terms.push_back((other - 1.5) * prescale);
      double want = op == ReduceOp::product ? 1 : 0;
      for (const double term : terms) want = op == ReduceOp::product ? want * term : want + term;
      if (op == ReduceOp::average) want /= static_cast<double>(terms.size());
      if (op == ReduceOp::min) want = *std::ranges::min_element(terms);
      if (op == ReduceOp::max) want = *std::ranges::max_element(terms);
      const auto& got = one.results[static_cast<std::size_t>(step)];
      CHECK(got.size() == 5);
      for (const double value : got) CHECK(value == Approx(want));
    }
  }
}

TEST_CASE("a joined rank changes no bits, in an allreduce or in a reducescatter of any operation") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto dtype = GENERATE(DType::i32, DType::u8, DType::i64, DType::b8, DType::f16, DType::bf16);
  CAPTURE(backend, name_of(dtype));
  constexpr std::int64_t kElements = 7;
  struct Wrong {
    std::vector<std::string> of;
  };
  const auto seen = run_on_ranks(backend, kRanks, [&](Rank& self) {
    Wrong out;
    if (self.rank() != 1) {
      for (const ReduceOp op : kReduceOps) {
        if (op == ReduceOp::average || op == ReduceOp::adasum || !is_defined(op, dtype)) continue;
        const std::string name(name_of(op));
        visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
          Buffer whole(dtype, {kElements}), terms(dtype, {kElements});
          for (Buffer* const buffer : {&whole, &terms}) {
            for (std::int64_t i = 0; i < kElements; ++i) {
              const T value = input_value<T>(self.rank(), i, 0);
              std::memcpy(buffer->bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
            }
          }
          must(self.run(CollectiveKind::allreduce, {{whole.view()}}, {.name = name, .op = op}));
          const Pending scattered = self.start(CollectiveKind::reducescatter, {{terms.view()}},
                                               {.name = name + " scattered", .op = op});
          must(scattered.wait());
          const std::int64_t rows = self.rank() == 0 ? 3 : 2;  // of 7
          const std::int64_t first = self.rank() == 0 ? 0 : 5;
          const TensorView block = scattered.view(0);
          for (std::int64_t i = 0; i < kElements; ++i) {
            const T want = reduced(op, input_value<T>(0, i, 0), input_value<T>(2, i, 0));
            if (!matches(element_at<T>(whole.bytes.data(), static_cast<std::size_t>(i)), want, false))
              out.of.push_back(name);
            if (i < first || i >= first + rows) continue;
            if (!matches(element_at<T>(block.data, static_cast<std::size_t>(i - first)), want, false))
              out.of.push_back(name + " scattered");
          }
        });
      }
    }
    must(self.join());
    return out;
  });
  for (const Wrong& wrong : seen) CHECK(wrong.of == std::vector<std::string>());
}

TEST_CASE("a joined rank gives no rows to allgather and alltoall, and takes its slice of a reducescatter") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  struct Gathered {
    std::vector<int> gathered, exchanged, scattered;
    std::vector<std::int64_t> splits;
  };
  const auto seen = run_on_ranks(backend, kRanks, [&](Rank& self) {
    Gathered out;
    if (self.rank() != 0) {
      std::vector<int> mine(static_cast<std::size_t>(self.rank()), self.rank());
      out.gathered = must(self.allgather(mine, {.name = "gather"}));
      std::vector<int> rows = {self.rank() * 10, self.rank() * 10 + 1, self.rank() * 10 + 2};
      const Pending exchange = self.alltoall_async(rows, {.name = "exchange"});
      must(exchange.wait());
      out.exchanged = exchange.output<int>();
      out.splits = exchange.received_splits();
      std::vector<int> terms = {1, 2, 3, 4, 5, 6};
      out.scattered = must(self.reducescatter(terms, {.name = "scatter"}));
    }
    must(self.join());
    return out;
  });
  for (int rank = 1; rank < kRanks; ++rank) {
    const Gathered& one = seen[static_cast<std::size_t>(rank)];
    CHECK(one.gathered == std::vector{1, 2, 2});
    CHECK(one.splits == std::vector<std::int64_t>{0, 1, 1});
    CHECK(one.exchanged == std::vector{10 + rank, 20 + rank});
    CHECK(one.scattered == (rank == 1 ? std::vector{6, 8} : std::vector{10, 12}));
  }
}

TEST_CASE("broadcast works from a rank that still takes part, and is an error from a joined one") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  struct Cast {
    std::vector<int> from_last;
    Status from_joined;
  };
  const auto seen = run_on_ranks(backend, kRanks, [&](Rank& self) {
    Cast out;
    if (self.rank() != 0) {
      out.from_last = {self.rank(), self.rank()};
      must(self.broadcast(out.from_last, {.name = "good", .root = 2}));
      std::vector<int> x = {1};
      out.from_joined = self.broadcast(x, {.name = "bad", .root = 0});
    }
    must(self.join());
    return out;
  });
  for (int rank = 1; rank < kRanks; ++rank) {
    const Cast& one = seen[static_cast<std::size_t>(rank)];
    CHECK(one.from_last == std::vector{2, 2});
    CHECK(one.from_joined.code() == Code::invalid_argument);
    CHECK_THAT(one.from_joined.message(), Contains("root rank 0 has joined"));
  }
}

TEST_CASE("with JOIN=horovod an average divides by the size of the set, and other reductions are the same") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  Config config = quiet_config();
  config.join = JoinRule::horovod;
  const auto seen = run_on_ranks(backend, kRanks, config, [&](Rank& self) {
    std::vector<std::vector<double>> out;
    if (self.rank() != 1) {
      for (const auto op : {ReduceOp::average, ReduceOp::sum, ReduceOp::min}) {
        std::vector<double> x(5, 3 * (self.rank() + 1));
        must(self.allreduce(x, {.name = std::string(name_of(op)), .op = op, .prescale = 2}));
        out.push_back(x);
      }
    }
    must(self.join());
    std::vector<double> after(5, 6);
    must(self.allreduce(after, {.name = "average", .op = ReduceOp::average}));
    out.push_back(after);
    return out;
  });
  const auto filled = [](double value) { return std::vector<double>(5, value); };
  for (const int rank : {0, 2})
    CHECK(seen[static_cast<std::size_t>(rank)] == std::vector{filled(8), filled(24), filled(6), filled(6)});
  CHECK(seen[1] == std::vector<std::vector<double>>{filled(6)});
}

TEST_CASE("with JOIN=horovod what is no allreduce fails beside joined ranks, which the text names on all") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  Config config = quiet_config();
  config.join = JoinRule::horovod;
  using Kind = CollectiveKind;
  const auto seen = run_on_ranks(backend, kRanks, config, [&](Rank& self) {
    std::vector<Status> out;
    const auto call_all = [&](const std::string& when) {
      std::vector<Status> ended;
      std::vector<int> x(kRanks, 1), y(kRanks, 1);
      for (const Kind kind : {Kind::allgather, Kind::broadcast, Kind::alltoall, Kind::reducescatter})
        ended.push_back(self.run(kind, {{view_of(x)}}, {.name = when, .root = 0}));
      ended.push_back(self.run(Kind::allgather, {{view_of(x), {}, "a"}, {view_of(y), {}, "b"}}));
      ended.push_back(self.barrier());
      return ended;
    };
    for (const Status& status : call_all("x")) must(status);
    if (self.rank() == 0) out = call_all("x");
    must(self.join());
    for (const Status& status : call_all("x")) must(status);
    return out;
  });
  REQUIRE(seen[0].size() == 6);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(seen[0][i].code() == Code::invalid_argument);
    CHECK_THAT(seen[0][i].message(), Contains("ranks 1, 2 have joined process set 0"));
  }
  CHECK(seen[0][5].is_ok());
}

TEST_CASE("nothing can be submitted to a set between this rank's join and its end") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  std::binary_semaphore has_been_refused(0);
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    Status refused;
    Pending joined;
    if (self.rank() == 0) {
      joined = self.join_async();
      std::vector<int> x = {1};
      refused = self.allreduce(x, {.name = "late"});
      has_been_refused.release();
    } else {
      std::vector<int> x = {1};
      must(self.allreduce(x, {.name = "other"}));  // completes only once rank 0 has joined
      has_been_refused.acquire();                  // this rank's join would end rank 0's
      joined = self.join_async();
    }
    must(joined.wait());
    return refused;
  });
  CHECK(seen[0].code() == Code::invalid_argument);
  CHECK_THAT(seen[0].message(), Contains("has joined"));
}

}  // namespace dabke::test

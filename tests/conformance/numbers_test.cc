// Numbers with special rules: the same bits on every rank, infinities, integers that a double cannot hold.
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "tests/conformance/averages.h"
#include "tests/conformance/matrix.h"
#include "tests/conformance/values.h"
#include "tests/in_process/job.h"
#include "tests/patience.h"

namespace dabke::test {
TEST_CASE("allreduce averages over the process set, not over the world") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto filled = [](float value) {
    return std::vector<float>(1001, value);
  };  // odd, so two blocks are uneven
  const auto seen = run_on_ranks(backend, 4, [&](Rank& self) {
    const auto pair = self.add_process_set({0, 1});  // every rank takes part in making it
    auto x = filled(static_cast<float>(self.rank()));
    if (self.rank() < 2) must(self.allreduce(x, {.name = "x", .op = ReduceOp::average, .set = pair}));
    return x;
  });
  CHECK(seen == std::vector{filled(0.5f), filled(0.5f), filled(2), filled(3)});
}

TEST_CASE("sums of 1e8, -1e8 and 1 have the same bits on every rank, whatever the offset and the batch") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const int ranks = GENERATE(from_range(test::kSanitized ? std::vector{3} : std::vector{2, 3, 4}));
  CAPTURE(backend, ranks);
  constexpr float kTerms[] = {1e8f, -1e8f, 1.0f, 0.1f, -3e7f};
  const auto seen = run_on_ranks(backend, ranks, [&](Rank& self) {
    std::vector<std::vector<float>> tensors;
    for (const std::size_t length : {1, 2, 3, 5, 17, 64, 1001, 40000}) {
      for (std::size_t offset = 0; offset < 3; ++offset) {
        auto& tensor = tensors.emplace_back(length);
        for (std::size_t i = 0; i < length; ++i) {
          tensor[i] = kTerms[(i + offset + static_cast<std::size_t>(self.rank()) * 2) % std::size(kTerms)];
        }
      }
    }
    std::vector<Pending> pending;
    for (int round = 0; round < 3; ++round) {  // waits at other places each time, so batches differ
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        pending.push_back(self.allreduce_async(tensors[i], {.name = "sum " + std::to_string(i)}));
        if (i % static_cast<std::size_t>(round + 2) == 1) must(pending.back().wait());
      }
      for (const Pending& one : pending) must(one.wait());
      pending.clear();
    }
    std::vector<std::uint32_t> bits;
    for (const auto& tensor : tensors) {
      for (const float value : tensor) bits.push_back(std::bit_cast<std::uint32_t>(value));
    }
    return bits;
  });
  for (const auto& bits : seen) CHECK((bits == seen.front()));
}

TEST_CASE("NaN and infinity come out of a reduction as they must") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    const bool last = self.rank() == 2;
    const std::vector<float> values = {last ? nan : 1.0f, last ? inf : 1.0f, self.rank() == 0 ? -inf : inf,
                                       2.0f};
    std::vector<std::vector<float>> out;
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
      auto x = values;
      must(self.allreduce(x, op));
      out.push_back(x);
    }
    return out;
  });
  for (const auto& of_rank : seen) {
    for (std::size_t i = 0; i < of_rank.size(); ++i) {
      const bool is_extreme = i == 1 || i == 2;
      CHECK((std::isnan(of_rank[i][0]) || (is_extreme && !backend.has_host_floats())));
    }
    CHECK(of_rank[0][1] == inf);
    CHECK(std::isnan(of_rank[0][2]));
    CHECK(of_rank[0][3] == 6.0f);
    CHECK(of_rank[1][1] == 1.0f);
    CHECK(of_rank[1][2] == -inf);
    CHECK(of_rank[2][1] == inf);
    CHECK(of_rank[2][2] == inf);
    CHECK(of_rank[3][1] == inf);
    CHECK(of_rank[3][2] == -inf);
    CHECK(of_rank[3][3] == 8.0f);
  }
}

TEST_CASE("integers keep every bit, and wrap where they overflow") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  constexpr std::int64_t kOdd = (std::int64_t{1} << 53) + 1;  // a double cannot hold it
  struct Seen {
    std::vector<std::int64_t> sum, most;
    std::vector<std::uint64_t> wrapped;
    std::vector<std::int8_t> small;
  };
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    Seen out{{kOdd * (self.rank() + 1), -kOdd},
             {kOdd - self.rank(), kOdd + self.rank()},
             {~std::uint64_t{0}},
             {100}};
    must(self.allreduce(out.sum, ReduceOp::sum));
    must(self.allreduce(out.most, ReduceOp::max));
    must(self.allreduce(out.wrapped, ReduceOp::sum));
    must(self.allreduce(out.small, ReduceOp::sum));
    return out;
  });
  for (const Seen& one : seen) {
    CHECK(one.sum == std::vector<std::int64_t>{6 * kOdd, -3 * kOdd});
    CHECK(one.most == std::vector<std::int64_t>{kOdd, kOdd + 2});
    CHECK(one.wrapped == std::vector<std::uint64_t>{~std::uint64_t{0} - 2});
    CHECK(one.small == std::vector<std::int8_t>{44});
  }
}

TEST_CASE("average is the sum divided by the ranks, and integers truncate toward zero") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  struct Seen {
    std::vector<std::int32_t> whole;
    std::vector<double> real;
  };
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    Seen out{{self.rank() * 2 + 1, -self.rank() * 2, self.rank() + 5}, {0.5 * self.rank(), 3}};
    must(self.allreduce(out.whole, ReduceOp::average));
    must(self.allreduce(out.real, ReduceOp::average));
    return out;
  });
  for (const Seen& one : seen) {
    CHECK(one.whole == std::vector<std::int32_t>{3, -2, 6});
    CHECK(one.real == std::vector<double>{0.5, 3});
  }
}

TEST_CASE("an average is right wherever it is a number of its dtype, if its sum is none as well") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const int ranks = GENERATE(from_range(test::kSanitized ? std::vector{2, 5} : std::vector{1, 2, 3, 4, 5}));
  CAPTURE(backend, ranks);
  for (const auto& wrong : run_on_ranks(
           backend, ranks, [&](Rank& self) { return wrong_averages(self, backend.has_host_floats()); }))
    CHECK(wrong == std::vector<std::string>{});
}

TEST_CASE("adasum and an average of bool are refused by name") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    std::vector<float> x(3);
    const Status adasum = self.allreduce(x, {.name = "grad", .op = ReduceOp::adasum});
    bool flags[2] = {true, false};
    const TensorView view{flags, DType::b8, {}, Shape{2}};
    const Status average =
        self.start(CollectiveKind::allreduce, {{view}}, {.name = "flags", .op = ReduceOp::average}).wait();
    return std::pair(adasum, average);
  });
  for (const auto& [adasum, average] : seen) {
    CHECK(adasum.code() == Code::not_implemented);
    CHECK(adasum.message().find("adasum") != std::string::npos);
    CHECK(adasum.message().find("'grad'") != std::string::npos);
    CHECK(average.code() == Code::invalid_argument);
    CHECK(average.message().find("'flags'") != std::string::npos);
  }
}

TEST_CASE("a thousand small tensors submitted at once are fused, and each gets its own result") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  struct Seen {
    bool right = true;
    std::uint64_t batches = 0;
  };
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    std::vector<std::vector<float>> tensors;
    for (int i = 0; i < 1000; ++i)
      tensors.emplace_back(static_cast<std::size_t>(i % 7 + 1), static_cast<float>(i));
    std::vector<Pending> pending;
    const std::uint64_t before = self.runtime().statistics().batches;
    for (auto& tensor : tensors) pending.push_back(self.allreduce_async(tensor));
    Seen out;
    for (int i = 0; i < 1000; ++i) {
      must(pending[static_cast<std::size_t>(i)].wait());
      for (const float value : tensors[static_cast<std::size_t>(i)]) {
        out.right = out.right && value == 3.0f * static_cast<float>(i);
      }
    }
    out.batches = self.runtime().statistics().batches - before;
    return out;
  });
  for (const Seen& one : seen) {
    CHECK(one.right);
    // few batches; more only if tensors arrive one by one
    CHECK(one.batches < (test::kSanitized ? 1000 : 500));
  }
}

/// Sets the floating-point modes that a program may set for its threads: rounding up and, on x86-64,
/// subnormal numbers read and written as zero.
void set_odd_floats() {
#ifdef __x86_64__
  _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
  std::fesetround(FE_UPWARD);
}

bool has_odd_floats() {
#ifdef __x86_64__
  if ((_mm_getcsr() & 0x8040) != 0x8040) return false;
#endif
  return std::fegetround() == FE_UPWARD;
}

/// Subnormal numbers with subnormal sums, and numbers whose sums are rounded.
template <class T>
std::vector<T> delicate_numbers(int rank, std::size_t count) {
  using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const double least = std::is_same_v<T, f16> ? 0x1p-24 : std::is_same_v<T, double> ? 0x1p-1040 : 0x1p-130;
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto some = static_cast<double>(1 + i % 5 + static_cast<std::size_t>(rank));
    all[i] = T(static_cast<Computed>(i % 2 == 0 ? some * least : some / 3));
  }
  return all;
}

/// Appends each result. The first half of the calls wait, so that the rank helps; the other half poll.
template <class T>
void run_delicate(Rank& self, const std::vector<T>& input, std::vector<std::vector<T>>& results) {
  for (const bool is_polled : {false, true}) {
    for (const Call& call : {Call{}, Call{.op = ReduceOp::average}, Call{.prescale = 0.7},
                             Call{.postscale = 0.1}, Call{.op = ReduceOp::max}}) {
      std::vector<T> data = input;
      const Pending pending = self.allreduce_async(data, call);
      while (is_polled && !pending.is_done()) std::this_thread::yield();
      must(pending.wait());
      results.push_back(std::move(data));
    }
  }
}

TEST_CASE("what one rank has set for the floats of its own threads changes no bit, and stays set there") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  CAPTURE(backend);
  constexpr int kRanks = 3;
  const auto results_of = [&]<class T>(std::type_identity<T>, int odd_rank) {
    std::vector<std::vector<T>> inputs;
    for (const std::size_t count : {std::size_t{5}, std::size_t{30011}})
      for (int rank = 0; rank < kRanks; ++rank) inputs.push_back(delicate_numbers<T>(rank, count));
    Job job(backend, kRanks, [&](int rank) {  // runs on the thread that opens the rank
      if (rank == odd_rank) set_odd_floats();
      return quiet_config();
    });
    return job.run([&](Rank& self) {
      std::vector<std::vector<T>> results;
      if (self.rank() == odd_rank) set_odd_floats();
      for (std::size_t i = static_cast<std::size_t>(self.rank()); i < inputs.size(); i += kRanks)
        run_delicate(self, inputs[i], results);
      if (self.rank() == odd_rank && !has_odd_floats()) throw std::runtime_error("no longer set");
      return results;
    });
  };
  const auto check = [&]<class T>(std::type_identity<T> type) {
    const auto usual = results_of(type, -1);
    const auto differs = [&](int odd_rank) {
      const auto seen = results_of(type, odd_rank);
      for (std::size_t rank = 0; rank < seen.size(); ++rank) {
        for (std::size_t i = 0; i < seen[rank].size(); ++i) {
          if (std::memcmp(seen[rank][i].data(), usual[0][i].data(), seen[rank][i].size() * sizeof(T)) != 0)
            return fmt::format("{}: result {} of rank {} while {} is odd", name_of(dtype_of<T>), i, rank,
                               odd_rank);
        }
      }
      return std::string();
    };
    CHECK(differs(0) == "");
    CHECK(differs(1) == "");
  };
  check(std::type_identity<float>());
  check(std::type_identity<f16>());
  if (test::kSanitized || cases_are_pairwise()) return;
  check(std::type_identity<bf16>());
  check(std::type_identity<double>());
}

}  // namespace dabke::test

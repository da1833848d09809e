// Outputs that lie where their inputs are. An output may be at the input's beginning or, as NCCL defines it,
// at this rank's part of the longer of the two. Both forms are valid for every collective that can have them.
// Any other overlap is refused on all ranks.
#include <algorithm>
#include <cstring>
#include <span>

#include <catch2/catch.hpp>

#include "runtime/base/bytes.h"
#include "tests/in_process/job.h"

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;

enum class Form { at_the_input, at_this_ranks_part };

/// Element i of tensor `tensor` on rank `rank`: a small whole number, so that every sum is exact. It repeats
/// after kPeriod; with so many columns, or a multiple, all rows would look the same.
float value(int tensor, int rank, std::int64_t i) {
  return static_cast<float>((i * 7 + tensor * 13 + rank * 29) % 1001);
}
constexpr std::int64_t kPeriod = 1001 / 7;

/// Writes `at(0)`, `at(1)` and so on. Only kPeriod of them are computed.
template <class At>
void write_values(std::span<float> to, At at) {
  const std::size_t computed = std::min(to.size(), to_size(kPeriod));
  for (std::size_t i = 0; i < computed; ++i) to[i] = at(static_cast<std::int64_t>(i));
  for (std::size_t done = computed; done < to.size();) {  // a multiple of the period each time
    const std::size_t more = std::min(done, to.size() - done);
    std::copy_n(to.begin(), more, to.begin() + static_cast<std::ptrdiff_t>(done));
    done += more;
  }
}

/// Rows of a rank's part of a reducescatter. If they do not divide evenly, the first ranks have one more.
std::int64_t part_of(std::int64_t rows, int ranks, int rank) { return rows / ranks + (rank < rows % ranks); }
std::int64_t rows_before(std::int64_t rows, int ranks, int rank) {
  std::int64_t before = 0;
  for (int r = 0; r < rank; ++r) before += part_of(rows, ranks, r);
  return before;
}

/// One tensor: its memory, and its input and output as views of that memory.
struct Tensor {
  std::vector<float> memory;
  TensorView input, output;
  std::vector<float> expected;
};

TensorView rows_at(std::vector<float>& memory, std::int64_t first_row, std::int64_t rows,
                   std::int64_t columns) {
  return {memory.data() + first_row * columns, DType::f32, {}, Shape{rows, columns}};
}

void make(Tensor& tensor, int number, CollectiveKind kind, Form form, const Rank& self, std::int64_t rows,
          std::int64_t columns, float prescale) {
  const int n = self.size(), own = self.rank();
  const std::int64_t mine =
      kind == CollectiveKind::allgather ? rows + own : rows;  // the number differs between ranks
  const auto fill = [&](std::int64_t first_row) {
    write_values(std::span(tensor.memory).subspan(to_size(first_row * columns), to_size(mine * columns)),
                 [&](std::int64_t i) { return value(number, own, i); });
  };
  if (kind == CollectiveKind::reducescatter) {
    const std::int64_t before = rows_before(rows, n, own), part = part_of(rows, n, own);
    tensor.memory.resize(static_cast<std::size_t>(rows * columns));
    fill(0);
    tensor.input = rows_at(tensor.memory, 0, rows, columns);
    tensor.output = rows_at(tensor.memory, form == Form::at_the_input ? 0 : before, part, columns);
    tensor.expected.resize(to_size(part * columns));
    write_values(tensor.expected, [&](std::int64_t i) {
      float sum = 0;
      for (int r = 0; r < n; ++r) sum += value(number, r, before * columns + i) * prescale;
      return sum;
    });
  } else if (kind == CollectiveKind::allgather) {
    std::int64_t before = 0, all = 0;
    tensor.expected.resize(to_size((rows * n + n * (n - 1) / 2) * columns));
    for (int r = 0; r < n; ++r) {
      if (r == own) before = all;
      write_values(std::span(tensor.expected).subspan(to_size(all * columns), to_size((rows + r) * columns)),
                   [&](std::int64_t i) { return value(number, r, i); });
      all += rows + r;
    }
    tensor.memory.resize(static_cast<std::size_t>(all * columns));
    const std::int64_t at = form == Form::at_the_input ? 0 : before;
    fill(at);
    tensor.input = rows_at(tensor.memory, at, mine, columns);
    tensor.output = rows_at(tensor.memory, 0, all, columns);
  } else {  // alltoall: `rows` is a multiple of n
    tensor.memory.resize(static_cast<std::size_t>(rows * columns));
    fill(0);
    tensor.input = tensor.output = rows_at(tensor.memory, 0, rows, columns);
    const std::int64_t block = rows / n * columns;
    tensor.expected.resize(tensor.memory.size());
    for (int r = 0; r < n; ++r) {
      write_values(std::span(tensor.expected).subspan(to_size(r * block), to_size(block)),
                   [&](std::int64_t i) { return value(number, r, own * block + i); });
    }
  }
}

bool is_right(const Tensor& tensor) {
  return to_size(tensor.output.elements()) == tensor.expected.size() &&
         std::memcmp(tensor.output.data, tensor.expected.data(), tensor.expected.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("an output may begin at its input, or lie at this rank's part of it, in batches of any size") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto [kind, form] = GENERATE(std::pair(CollectiveKind::reducescatter, Form::at_the_input),
                                     std::pair(CollectiveKind::reducescatter, Form::at_this_ranks_part),
                                     std::pair(CollectiveKind::allgather, Form::at_the_input),
                                     std::pair(CollectiveKind::allgather, Form::at_this_ranks_part),
                                     std::pair(CollectiveKind::alltoall, Form::at_the_input));
  const int ranks = GENERATE(1, 2, 3);
  CAPTURE(backend, name_of(kind), form == Form::at_the_input, ranks);
  const auto seen = run_on_ranks(backend, ranks, [&, kind = kind, form = form](Rank& self) -> std::string {
    for (const std::int64_t columns : {3, 40'000}) {
      for (const std::int64_t rows : {1, 3, 6}) {
        if (kind == CollectiveKind::alltoall && rows != 6) continue;
        for (const float prescale : {1.0F, 2.0F}) {
          if (prescale != 1 && !reduces(kind)) continue;
          std::vector<Tensor> tensors(4);
          for (int t = 0; t < 4; ++t) make(tensors[to_size(t)], t, kind, form, self, rows, columns, prescale);
          const Call call{.prescale = reduces(kind) ? prescale : 1};
          std::vector<Pending> pending;
          for (Tensor& tensor : tensors)
            pending.push_back(self.start(kind, {{tensor.input, tensor.output}}, call));
          for (const Pending& one : pending) must(one.wait());
          if (!std::ranges::all_of(tensors, is_right)) return fmt::format("{} rows of {}", rows, columns);
          if (kind == CollectiveKind::alltoall) continue;  // alltoall has no groups
          std::vector<Argument> group;
          for (int t = 0; t < 4; ++t) {
            Tensor& tensor = tensors[to_size(t)] = Tensor();
            make(tensor, t, kind, form, self, rows, columns, prescale);
            group.push_back({tensor.input, tensor.output, fmt::format("g{}", t)});
          }
          must(self.run(kind, group, call));
          if (!std::ranges::all_of(tensors, is_right))
            return fmt::format("{} rows of {}, group", rows, columns);
        }
      }
    }
    return "";
  });
  CHECK(seen == std::vector<std::string>(static_cast<std::size_t>(ranks)));
}

TEST_CASE("an overlap that no form allows is refused on all ranks, where one rank alone has it") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const auto kind =
      GENERATE(CollectiveKind::allreduce, CollectiveKind::reducescatter, CollectiveKind::allgather);
  CAPTURE(backend, name_of(kind));
  if (backend.is_on_device()) return;  // copies on a device do not overlap
  struct Seen {
    Status refused;
    bool was_left_alone = false, again = false;
  };
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    constexpr std::int64_t kRows = 6, kColumns = 4;
    const std::int64_t given = kind == CollectiveKind::allgather       ? kRows * 3
                               : kind == CollectiveKind::reducescatter ? kRows / 3
                                                                       : kRows;
    std::vector<float> memory(40 * kColumns, 1);
    const auto call = [&](std::int64_t output_row) {
      const TensorView input = rows_at(memory, 0, kRows, kColumns);
      return self.start(kind, {{input, rows_at(memory, output_row, given, kColumns)}}, {.name = "x"}).wait();
    };
    Seen out;
    out.refused = call(self.rank() == 1 ? 1 : 20);  // row 1 is not the beginning of a rank's part
    out.was_left_alone = memory == std::vector<float>(40 * kColumns, 1);
    must(call(20));
    const float wanted = kind == CollectiveKind::allgather ? 1.0F : 3.0F;
    out.again = std::ranges::all_of(std::span(memory).subspan(20 * kColumns, to_size(given * kColumns)),
                                    [&](float one) { return one == wanted; });
    return out;
  });
  for (const Seen& one : seen) {
    CHECK(one.refused.code() == Code::invalid_argument);
    CHECK_THAT(one.refused.message(),
               Contains("input and output of tensor 'x' overlap") && Contains("after the input"));
    CHECK(one.was_left_alone);
    CHECK(one.again);
  }
  for (const int other : {0, 2})
    CHECK_THAT(seen[to_size(other)].refused.message(),
               Contains(" 'x' cannot run: rank 1") && Contains("No data has moved"));
}

TEST_CASE("an allgather's input inside its output, but not at its rank's part, fails on all ranks") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  CAPTURE(backend);
  const auto seen = run_on_ranks(backend, 3, [&](Rank& self) {
    std::vector<float> memory(12, 1);
    const bool is_wrong = self.rank() == 2;  // its part begins behind rank 0's row and rank 1's two rows
    const TensorView input = rows_at(memory,
                                     self.rank() == 0   ? 0
                                     : self.rank() == 1 ? 1
                                     : is_wrong         ? 2
                                                        : 3,
                                     self.rank() + 1, 2);
    return self.run(CollectiveKind::allgather, {{input, rows_at(memory, 0, 6, 2)}}, {.name = "x"});
  });
  for (const Status& status : seen) {
    CHECK(status.code() == Code::invalid_argument);
    CHECK_THAT(status.message(), Contains("on rank 2 the input of tensor 'x' begins 16 bytes into its "
                                          "output, but that rank's part begins 24 bytes into it") &&
                                     Contains("No data has moved"));
  }
}

TEST_CASE("an output that overlaps another tensor of its call or group is refused on all ranks") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  const bool one_by_one = GENERATE(false, true);
  CAPTURE(backend, one_by_one);
  if (backend.is_on_device()) return;  // copies on a device do not overlap
  const auto seen = run_on_ranks(backend, 2, [&](Rank& self) {
    std::vector<float> memory(64, 1);
    const std::int64_t second = self.rank() == 1 ? 4 : 16;
    const Argument a{rows_at(memory, 0, 8, 1), {}, "a"};
    const Argument b{rows_at(memory, 40, 8, 1), rows_at(memory, second, 8, 1), "b"};
    if (!one_by_one) return self.run(CollectiveKind::allreduce, {a, b});
    const Call member{.group = "g", .group_size = 2};
    const auto start = [&](const Argument& argument) {
      Call call = member;
      call.name = argument.name;
      return self.start(CollectiveKind::allreduce, {{argument.input, argument.output}}, call);
    };
    const Pending first = start(a), last = start(b);
    const Status status = first.wait();
    (void)must_fail(last.wait());
    return status;
  });
  for (const Status& status : seen) {
    CHECK(status.code() == Code::invalid_argument);
    CHECK_THAT(status.message(),
               Contains("the output of tensor 'a' overlaps tensor 'b' of the same call or group"));
  }
}

}  // namespace dabke::test

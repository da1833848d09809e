#include "tests/conformance/in_place.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "runtime/base/bytes.h"

namespace dabke::test {
namespace {

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
  const std::vector<float>& expected = tensor.expected;
  if (to_size(tensor.output.elements()) != expected.size()) return false;
  // memcmp() takes no null pointer, which an empty vector may have.
  return expected.empty() ||
         std::memcmp(tensor.output.data, expected.data(), expected.size() * sizeof(float)) == 0;
}

}  // namespace

TensorView rows_at(std::vector<float>& memory, std::int64_t first_row, std::int64_t rows,
                   std::int64_t columns) {
  return {memory.data() + first_row * columns, DType::f32, {}, Shape{rows, columns}};
}

std::string wrong_in_place(Rank& self, const InPlace& how, std::int64_t most_columns) {
  const auto [kind, form] = how;
  const std::vector<std::int64_t> all_rows = kind == CollectiveKind::alltoall
                                                 ? std::vector<std::int64_t>{2 * self.size()}
                                                 : std::vector<std::int64_t>{1, 3, 6};
  for (const std::int64_t columns : {std::int64_t{3}, most_columns}) {
    for (const std::int64_t rows : all_rows) {
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
}

}  // namespace dabke::test

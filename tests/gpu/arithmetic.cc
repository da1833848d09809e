#include "tests/gpu/arithmetic.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/base/half.h"
#include "tests/gpu/cuda_rank.h"

namespace dabke::test {
namespace {

template <class T>
T reduced(Rank& self, T own, ReduceOp op) {
  std::vector<T> number(1, own);
  must(self.allreduce(number, {.op = op}));
  return number[0];
}

/// Returns the number with its sign, so that -0 and +0 differ.
std::string text_of(float number) {
  return fmt::format("{}{}", std::signbit(number) ? "-" : "+", std::abs(number));
}

template <class T>
void show(Rank& self) {
  const auto print = [&](const std::string& what, const std::string& gave) {
    if (self.rank() == 0) {
      std::printf("figure: NCCL, %s, %d ranks: %s | %s\n", std::string(name_of(dtype_of<T>)).c_str(),
                  self.size(), what.c_str(), gave.c_str());
    }
  };
  const int last = self.size() - 1;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    const auto with = [&](int rank, float there, float elsewhere) {
      return static_cast<float>(reduced(self, static_cast<T>(self.rank() == rank ? there : elsewhere), op));
    };
    const auto is_nan = [](float number) { return std::isnan(number) ? "NaN" : "the number"; };
    const float of_first = with(0, nan, 1);
    const float of_last = with(last, nan, 1);
    print(fmt::format("{} of numbers and a NaN, on rank 0, and on rank {}", name_of(op), last),
          fmt::format("{}, {}", is_nan(of_first), is_nan(of_last)));
    const float zero_of_first = with(0, -0.0f, 0.0f);
    const float zero_of_last = with(last, -0.0f, 0.0f);
    print(fmt::format("{} of +0 and a -0, on rank 0, and on rank {}", name_of(op), last),
          fmt::format("{}, {}", text_of(zero_of_first), text_of(zero_of_last)));
  }
  if constexpr (sizeof(T) == 2) {
    // The large number plus 1 rounds back to the large number in 16 bits. So a sum that rounds each step to
    // 16 bits loses ones. A sum in a wider type keeps the ones of all other ranks. Whether a step loses a one
    // depends on the place of the large number in the ring.
    const float large = std::is_same_v<T, f16> ? 2048 : 256;
    const auto once = static_cast<float>(static_cast<T>(large + static_cast<float>(last)));
    std::vector<float> sums;
    for (int rank = 0; rank < self.size(); ++rank)
      sums.push_back(
          static_cast<float>(reduced(self, static_cast<T>(self.rank() == rank ? large : 1), ReduceOp::sum)));
    print(fmt::format("{} on rank 0 and {} times 1, then on rank 1, ...; rounded once {}", large, last, once),
          fmt::format("{}", fmt::join(sums, ", ")));
  }
}

}  // namespace

int show_arithmetic() {
  Rank self = open_rank(true);
  show<float>(self);
  show<f16>(self);
  show<bf16>(self);
  must(self.barrier());
  self.close();
  return 0;
}

}  // namespace dabke::test

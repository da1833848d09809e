#include "numbers.h"

#include <array>
#include <bit>
#include <limits>

namespace storm {
namespace {

std::int64_t within(std::uint64_t draw, std::int64_t least, std::int64_t most) {
  return least + static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(most - least + 1));
}

Bits whole(Dtype dtype, std::int64_t number) {
  return is_float(dtype) ? bits_of(dtype, static_cast<double>(number))
                         : cut(dtype, static_cast<Bits>(number));
}

/// Small whole numbers. Every partial result, scaled or not, is exact in the dtype:
/// bfloat16 has 8 binary digits, int8 has 7.
std::int64_t small_number(const Call& call, Dtype dtype, std::uint64_t draw) {
  const auto ranks = static_cast<std::int64_t>(std::popcount(call.takers));
  const bool is_scaled = call.prescale != 1 || call.postscale != 1;
  const bool has_sign = is_float(dtype) || is_signed(dtype);
  const std::int64_t sign = has_sign ? -1 : 0;
  switch (call.op) {
    case DABKE_PRODUCT: {
      constexpr std::array<std::int64_t, 3> kFactors{1, 2, -1};
      if (is_scaled) return has_sign && draw % 2 == 1 ? -1 : 1;
      return kFactors[draw % (has_sign ? 3 : 2)];
    }
    case DABKE_MIN:
    case DABKE_MAX: return is_scaled ? 4 * within(draw, 6 * sign, 6) : within(draw, 50 * sign, 50);
    case DABKE_AVERAGE:
      if (is_integer(dtype) && !is_scaled) return within(draw, 7 * sign, 7);
      return ranks * (is_scaled ? 4 : 1) * within(draw, 3 * sign, 3);
    default:
      if (!is_scaled) return within(draw, 15 * sign, 15);
      return 4 * (row_of(dtype).bits == 8 ? within(draw, 0, 1) : within(draw, 3 * sign, 3));
  }
}

/// An integer so large that the sum over all ranks just fits into the dtype.
Bits great_integer(const Call& call, Dtype dtype, std::uint64_t draw) {
  const auto ranks = static_cast<std::uint64_t>(std::popcount(call.takers));
  const int digits = row_of(dtype).bits - (is_signed(dtype) ? 1 : 0);
  const std::uint64_t most = (digits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << digits) - 1) / ranks;
  const std::uint64_t size = most - (draw >> 8) % 4;
  return cut(dtype, is_signed(dtype) && draw % 2 == 1 ? 0 - size : size);
}

Bits extreme_number(const Call& call, Dtype dtype, std::uint64_t draw, std::uint64_t common) {
  const bool adds = call.op == DABKE_SUM || call.op == DABKE_AVERAGE;
  if (is_integer(dtype)) return adds ? great_integer(call, dtype, draw) : cut(dtype, draw);
  const double great = dtype == Dtype::f16    ? 65504
                       : dtype == Dtype::bf16 ? 0x1.FEp127
                       : dtype == Dtype::f32  ? static_cast<double>(std::numeric_limits<float>::max())
                                              : std::numeric_limits<double>::max();
  if (call.op == DABKE_MIN || call.op == DABKE_MAX) {
    const std::array reals{great,
                           -great,
                           1.0,
                           -2.0,
                           std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()};
    return bits_of(dtype, reals[draw % reals.size()]);
  }
  // The average of the largest float16 numbers is finite, because the host
  // adds in float32. NCCL adds in float16.
  if (call.op == DABKE_AVERAGE && dtype == Dtype::f16 && !call.is_on_device)
    return bits_of(dtype, std::array{great, -great, 32768.0}[common % 3]);
  return whole(dtype, small_number(call, dtype, draw));
}

}  // namespace

Bits number_for(const Call& call, Dtype dtype, std::uint64_t draw, std::uint64_t common) {
  if (dtype == Dtype::b8) {  // so that neither result is much more frequent
    if (call.op == DABKE_BITWISE_XOR) return draw & 1;
    const bool is_rare = draw % static_cast<std::uint64_t>(std::popcount(call.takers) + 1) == 0;
    const bool is_or = call.op == DABKE_SUM || call.op == DABKE_MAX || call.op == DABKE_BITWISE_OR;
    return is_rare == is_or ? 1 : 0;
  }
  if (call.numbers == Numbers::extreme) return extreme_number(call, dtype, draw, common);
  if (call.numbers == Numbers::any && is_integer(dtype) && call.op != DABKE_AVERAGE) return cut(dtype, draw);
  return whole(dtype, small_number(call, dtype, draw));
}

}  // namespace storm

#include "benchmarks/perf/competitors/check.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

namespace dabke::perf {
namespace {

constexpr std::int64_t kPeriod = 13;  // a prime, so that no block of the collectives has this length
constexpr std::int64_t kRepeats = 512;

using Value = std::function<double(std::int64_t index)>;

int value_of(int rank, std::int64_t index, int salt) {
  return static_cast<int>((index % kPeriod * (rank + 1) + rank + salt) % 3);
}

/// Factors are one or zero: a product of twos would soon exceed the small dtypes.
double put_in(const Call& call, int rank, std::int64_t index, int salt) {
  const int value = value_of(rank, index, salt);
  return call.op == ReduceOp::product || call.dtype == DType::b8 ? value != 0 : value;
}

double reduced(const Call& call, std::int64_t index, int salt) {
  double all = put_in(call, 0, index, salt);
  for (int rank = 1; rank < call.ranks; ++rank) {
    const double other = put_in(call, rank, index, salt);
    switch (call.op) {
      case ReduceOp::min: all = std::min(all, other); break;
      case ReduceOp::max: all = std::max(all, other); break;
      case ReduceOp::product: all *= other; break;
      case ReduceOp::bitwise_and: all = static_cast<int>(all) & static_cast<int>(other); break;
      case ReduceOp::bitwise_or: all = static_cast<int>(all) | static_cast<int>(other); break;
      case ReduceOp::bitwise_xor: all = static_cast<int>(all) ^ static_cast<int>(other); break;
      default: all += other;
    }
  }
  return all;
}

template <class T>
T element(double value) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// Some periods of `value` as bytes, from element `first` on. At most `elements` elements are needed.
std::vector<std::byte> periods(DType dtype, std::int64_t first, std::int64_t elements, const Value& value) {
  const std::size_t width = size_of(dtype);
  const std::int64_t count = std::min(elements, kPeriod * kRepeats);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * width);
  visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < count; ++i) {
      const T one = element<T>(value((first + i) % kPeriod));
      std::memcpy(bytes.data() + static_cast<std::size_t>(i) * width, &one, width);
    }
  });
  return bytes;
}

void fill(void* memory, std::size_t size, const std::vector<std::byte>& pattern) {
  auto* const to = static_cast<std::byte*>(memory);
  for (std::size_t at = 0; at < size; at += pattern.size())
    std::memcpy(to + at, pattern.data(), std::min(pattern.size(), size - at));
}

std::int64_t differing(const std::byte* memory, std::size_t size, const std::vector<std::byte>& pattern,
                       std::size_t width) {
  std::int64_t count = 0;
  for (std::size_t at = 0; at < size; at += pattern.size()) {
    const std::size_t length = std::min(pattern.size(), size - at);
    if (std::memcmp(memory + at, pattern.data(), length) == 0) continue;
    for (std::size_t i = 0; i < length; i += width)
      count += std::memcmp(memory + at + i, pattern.data() + i, width) != 0;
  }
  return count;
}

}  // namespace

void fill_for_check(const Call& call, int salt) {
  if (!call.in_place() && call.output_bytes() != 0) std::memset(call.output, 0x5a, call.output_bytes());
  fill(call.input, call.input_bytes(), periods(call.dtype, 0, call.elements, [&](std::int64_t i) {
         return put_in(call, call.rank, i, salt);
       }));
}

std::int64_t count_wrong(const Call& call, int salt) {
  if (call.kind == CollectiveKind::barrier) return 0;
  const auto* const output = static_cast<const std::byte*>(call.output);
  // This rank's part of the inputs of all ranks, of every rank, or all of it.
  const bool own_part = call.kind == CollectiveKind::reducescatter || call.kind == CollectiveKind::alltoall;
  const std::int64_t first = own_part ? call.rank * call.part() : 0;
  const auto wrong_in = [&](const std::byte* at, std::int64_t elements, const Value& expected) {
    const std::size_t width = size_of(call.dtype);
    return differing(at, static_cast<std::size_t>(elements) * width,
                     periods(call.dtype, first, elements, expected), width);
  };
  const auto from = [&](int source) {
    return [&call, salt, source](std::int64_t i) { return put_in(call, source, i, salt); };
  };
  if (call.kind == CollectiveKind::broadcast) return wrong_in(output, call.output_elements, from(0));
  if (reduces(call.kind))
    return wrong_in(output, call.output_elements, [&](std::int64_t i) { return reduced(call, i, salt); });
  std::int64_t wrong = 0;
  for (int source = 0; source < call.ranks; ++source) {
    const std::size_t offset = static_cast<std::size_t>(source * call.part()) * size_of(call.dtype);
    wrong += wrong_in(output + offset, call.part(), from(source));
  }
  return wrong;
}

void fill_with_neutral(const Call& call) {
  const double neutral = call.op == ReduceOp::product ? 1 : 0;
  fill(call.input, call.input_bytes(),
       periods(call.dtype, 0, call.elements, [&](std::int64_t) { return neutral; }));
}

}  // namespace dabke::perf

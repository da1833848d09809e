#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "numbers.h"
#include "random.h"

namespace storm {
namespace {

template <class T>
T reduced_by(dabke_reduce_op op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (op == DABKE_BITWISE_AND) return a & b;
    if (op == DABKE_BITWISE_OR) return a | b;
    if (op == DABKE_BITWISE_XOR) return a ^ b;
  }
  switch (op) {
    case DABKE_MIN: return std::min(a, b);
    case DABKE_MAX: return std::max(a, b);
    case DABKE_PRODUCT: return a * b;
    default: return a + b;
  }
}

/// A product with a factor for which the result is a whole number.
std::int64_t times(std::int64_t number, double factor) {
  return factor == 1 ? number : static_cast<std::int64_t>(static_cast<double>(number) * factor);
}

std::string shown(Dtype dtype, Bits bits) {
  if (is_float(dtype)) return std::to_string(real_of(dtype, bits)) + " (bits " + std::to_string(bits) + ")";
  return is_signed(dtype) ? std::to_string(static_cast<std::int64_t>(extended(dtype, bits)))
                          : std::to_string(bits);
}

}  // namespace

Oracle::Oracle(std::uint64_t seed, const Call& call, Ranks set)
    : seed_(seed), call_(call), set_(list_of(set)), takers_(list_of(set & call.takers)) {}

std::int64_t Oracle::row_elements(std::size_t tensor) const {
  const auto& shape = call_.tensors[tensor].shape;
  return shape.empty() ? 1 : elements_of(std::span(shape).subspan(1));
}

std::int64_t Oracle::split(int from, std::size_t to) const {
  const auto most = static_cast<std::uint64_t>(call_.tensors[0].shape[0]) + 1;
  return static_cast<std::int64_t>(
      (call_.equal_splits ? hash(seed_, call_.id, from) : hash(seed_, call_.id, from, to)) % most);
}

std::vector<std::int64_t> Oracle::splits(int rank) const {
  std::vector<std::int64_t> rows;
  for (std::size_t to = 0; to < set_.size(); ++to) rows.push_back(split(rank, to));
  return rows;
}

std::vector<std::int64_t> Oracle::received_splits(int rank) const {
  const auto me = static_cast<std::size_t>(std::ranges::find(set_, rank) - set_.begin());
  std::vector<std::int64_t> rows;
  for (const int from : set_) rows.push_back(has(call_.takers, from) ? split(from, me) : 0);
  return rows;
}

std::int64_t Oracle::rows(std::size_t tensor, int rank) const {
  const std::int64_t rows = call_.tensors[tensor].shape[0];
  if (call_.kind == Kind::allgather)
    return static_cast<std::int64_t>(hash(seed_, call_.id, tensor, rank) %
                                     static_cast<std::uint64_t>(2 * rows + 1));
  if (call_.kind != Kind::alltoall) return rows;
  const auto parts = splits(rank);
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
}

std::vector<std::int64_t> Oracle::input_shape(std::size_t tensor, int rank) const {
  std::vector<std::int64_t> shape = call_.tensors[tensor].shape;
  if (has_own_rows(call_.kind)) shape[0] = rows(tensor, rank);
  return shape;
}

std::vector<std::int64_t> Oracle::output_shape(std::size_t tensor, int rank) const {
  std::vector<std::int64_t> shape = call_.tensors[tensor].shape;
  if (call_.kind == Kind::allgather) {
    shape[0] = 0;
    for (const int from : takers_) shape[0] += rows(tensor, from);
  } else if (call_.kind == Kind::alltoall) {
    const auto parts = received_splits(rank);
    shape[0] = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  } else if (call_.kind == Kind::reducescatter) {
    const auto size = static_cast<std::int64_t>(set_.size());
    shape[0] = shape[0] / size + (std::ranges::find(set_, rank) - set_.begin() < shape[0] % size ? 1 : 0);
  }
  return shape;
}

bool Oracle::lacks_output() const {
  for (const int rank : list_of(call_.odd)) {
    for (std::size_t i = 0; i < call_.tensors.size(); ++i) {
      if (elements_of(output_shape(i, rank)) != 0) return true;
    }
  }
  return false;
}

Bits Oracle::input(std::size_t tensor, int rank, std::uint64_t element) const {
  const Dtype dtype = call_.tensors[tensor].dtype;
  const std::uint64_t draw = hash(seed_, call_.id, tensor, element, rank);
  if (!reduces(call_.kind)) return dtype == Dtype::b8 ? draw & 1 : cut(dtype, draw);
  return number_for(call_, dtype, draw, hash(seed_, call_.id, tensor, element));
}

void Oracle::fill(std::size_t tensor, int rank, std::byte* to) const {
  const Dtype dtype = call_.tensors[tensor].dtype;
  const auto count = static_cast<std::uint64_t>(elements_of(input_shape(tensor, rank)));
  for (std::uint64_t i = 0; i < count; ++i) store(dtype, to + i * size_of(dtype), input(tensor, rank, i));
}

Bits Oracle::reduced_integers(Dtype dtype, std::size_t tensor, std::uint64_t element) const {
  std::uint64_t result = 0;
  for (std::size_t i = 0; i < takers_.size(); ++i) {
    const Bits bits = extended(dtype, input(tensor, takers_[i], element));
    const auto next = static_cast<std::uint64_t>(times(static_cast<std::int64_t>(bits), call_.prescale));
    if (i == 0) {
      result = next;
    } else if (is_signed(dtype)) {  // sums and products have the same low bits with and without a sign
      const bool compares = call_.op == DABKE_MIN || call_.op == DABKE_MAX;
      result = compares ? static_cast<std::uint64_t>(reduced_by(call_.op, static_cast<std::int64_t>(result),
                                                                static_cast<std::int64_t>(next)))
                        : reduced_by(call_.op, result, next);
    } else {
      result = reduced_by(call_.op, result, next);
    }
  }
  result = extended(dtype, cut(dtype, result));
  if (call_.op == DABKE_AVERAGE) {
    const auto count = static_cast<std::int64_t>(takers_.size());
    result = is_signed(dtype) ? static_cast<std::uint64_t>(static_cast<std::int64_t>(result) / count)
                              : result / static_cast<std::uint64_t>(count);
  }
  return cut(dtype, static_cast<std::uint64_t>(times(static_cast<std::int64_t>(result), call_.postscale)));
}

double Oracle::reduced_reals(Dtype dtype, std::size_t tensor, std::uint64_t element) const {
  double result = 0;
  for (std::size_t i = 0; i < takers_.size(); ++i) {
    const double next = real_of(dtype, input(tensor, takers_[i], element)) * call_.prescale;
    result = i == 0 ? next : reduced_by(call_.op, result, next);
  }
  return (call_.op == DABKE_AVERAGE ? result / static_cast<double>(takers_.size()) : result) *
         call_.postscale;
}

Bits Oracle::reduced(std::size_t tensor, std::uint64_t element) const {
  const Dtype dtype = call_.tensors[tensor].dtype;
  if (is_float(dtype)) return bits_of(dtype, reduced_reals(dtype, tensor, element));
  if (dtype != Dtype::b8) return reduced_integers(dtype, tensor, element);
  const bool is_or = call_.op == DABKE_SUM || call_.op == DABKE_MAX || call_.op == DABKE_BITWISE_OR;
  const auto is_set = [&](int rank) { return input(tensor, rank, element) != 0; };
  if (call_.op == DABKE_BITWISE_XOR) return std::ranges::count_if(takers_, is_set) % 2 != 0;
  return is_or ? std::ranges::any_of(takers_, is_set) : std::ranges::all_of(takers_, is_set);
}

bool Oracle::is_right(Dtype dtype, Bits got, Bits want) const {
  if (got == want) return true;
  if (!is_float(dtype) || !reduces(call_.kind)) return false;
  const double a = real_of(dtype, got), b = real_of(dtype, want);
  if (a == b) return true;  // zeros have signs
  if (call_.op != DABKE_AVERAGE || (takers_.size() & (takers_.size() - 1)) == 0) return false;
  const double epsilon = dtype == Dtype::f64 ? 0x1p-51 : dtype == Dtype::f32 ? 0x1p-22 : 0;
  return std::fabs(a - b) <= std::fabs(b) * epsilon;
}

std::string Oracle::compare(std::size_t tensor, const std::byte* got, std::uint64_t at, Bits want) const {
  const Dtype dtype = call_.tensors[tensor].dtype;
  const Bits here = load(dtype, got + at * size_of(dtype));
  if (is_right(dtype, here, want)) return {};
  return "element " + std::to_string(at) + " is " + shown(dtype, here) + ", not " + shown(dtype, want);
}

std::string Oracle::check_moved(std::size_t tensor, int rank, const std::byte* got) const {
  const auto row = static_cast<std::uint64_t>(row_elements(tensor));
  const auto me = static_cast<std::size_t>(std::ranges::find(set_, rank) - set_.begin());
  std::uint64_t at = 0;
  for (const int from : takers_) {
    if (has_root(call_.kind) && from != call_.root) continue;
    std::uint64_t begin = 0;
    auto count = static_cast<std::uint64_t>(elements_of(input_shape(tensor, from)));
    if (call_.kind == Kind::alltoall) {
      const auto parts = splits(from);
      begin = row * static_cast<std::uint64_t>(std::accumulate(
                        parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(me), std::int64_t{0}));
      count = row * static_cast<std::uint64_t>(parts[me]);
    }
    for (std::uint64_t i = 0; i < count; ++i, ++at) {
      if (auto wrong = compare(tensor, got, at, input(tensor, from, begin + i)); !wrong.empty())
        return wrong + " (element " + std::to_string(begin + i) + " of rank " + std::to_string(from) + ")";
    }
  }
  return {};
}

std::string Oracle::check(std::size_t tensor, int rank, const std::byte* got) const {
  if (!reduces(call_.kind)) return check_moved(tensor, rank, got);
  std::uint64_t begin = 0;
  if (call_.kind == Kind::reducescatter) {
    for (const int before : set_) {
      if (before == rank) break;
      begin += static_cast<std::uint64_t>(elements_of(output_shape(tensor, before)));
    }
  }
  const auto count = static_cast<std::uint64_t>(elements_of(output_shape(tensor, rank)));
  for (std::uint64_t i = 0; i < count; ++i) {
    if (auto wrong = compare(tensor, got, i, reduced(tensor, begin + i)); !wrong.empty()) return wrong;
  }
  return {};
}

int Oracle::arrived_permille(std::size_t tensor, int rank, const std::byte* got) const {
  const Dtype dtype = call_.tensors[tensor].dtype;
  const auto count = static_cast<std::uint64_t>(elements_of(input_shape(tensor, rank)));
  std::uint64_t arrived = 0, seen = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Bits sent = input(tensor, call_.root, i);
    if (sent == input(tensor, rank, i)) continue;  // equal before and after
    ++seen;
    if (load(dtype, got + i * size_of(dtype)) == sent) ++arrived;
  }
  return seen == 0 ? 0 : static_cast<int>(arrived * 1000 / seen);
}

std::string Oracle::check_input(std::size_t tensor, int rank, const std::byte* got) const {
  const Dtype dtype = call_.tensors[tensor].dtype;
  const auto count = static_cast<std::uint64_t>(elements_of(input_shape(tensor, rank)));
  for (std::uint64_t i = 0; i < count; ++i) {
    const Bits here = load(dtype, got + i * size_of(dtype)), want = input(tensor, rank, i);
    if (here != want)
      return "the input was changed: element " + std::to_string(i) + " is " + shown(dtype, here) + ", not " +
             shown(dtype, want);
  }
  return {};
}

}  // namespace storm

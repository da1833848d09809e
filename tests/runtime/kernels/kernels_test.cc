// Every kernel, compared with plain scalar arithmetic, on every instruction set of this CPU.
#include "runtime/kernels/kernels.h"

#include <catch2/catch.hpp>

#include "tests/runtime/kernels/values.h"

namespace dabke::test {
namespace {

/// The operations that have a kernel for this dtype.
std::vector<ReduceOp> ops_of(DType dtype) {
  std::vector<ReduceOp> ops;
  for (const ReduceOp op : kReduceOps) {
    if (op != ReduceOp::average && op != ReduceOp::adasum && is_defined(op, dtype)) ops.push_back(op);
  }
  return ops;
}

template <class Real>
Real reference_real(ReduceOp op, Real a, Real b) {
  if (op == ReduceOp::sum) return a + b;
  if (op == ReduceOp::product) return a * b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Real>::quiet_NaN();
  const bool a_is_less = a < b || (a == b && std::signbit(a));
  return (op == ReduceOp::min) == a_is_less ? a : b;
}

template <class T>
T reference(ReduceOp op, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    if (op == ReduceOp::bitwise_xor) return a != b;
    return op == ReduceOp::sum || op == ReduceOp::max || op == ReduceOp::bitwise_or ? a || b : a && b;
  } else if constexpr (kIsHalf<T>) {
    return T(reference_real(op, static_cast<float>(a), static_cast<float>(b)));
  } else if constexpr (kIsReal<T>) {
    return reference_real(op, a, b);
  } else {
    using Wrapping = std::make_unsigned_t<T>;
    const auto wide_a = static_cast<std::uint64_t>(static_cast<Wrapping>(a));
    const auto wide_b = static_cast<std::uint64_t>(static_cast<Wrapping>(b));
    if (op == ReduceOp::sum) return static_cast<T>(static_cast<Wrapping>(wide_a + wide_b));
    if (op == ReduceOp::product) return static_cast<T>(static_cast<Wrapping>(wide_a * wide_b));
    if (op == ReduceOp::bitwise_and) return static_cast<T>(a & b);
    if (op == ReduceOp::bitwise_or) return static_cast<T>(a | b);
    if (op == ReduceOp::bitwise_xor) return static_cast<T>(a ^ b);
    return (op == ReduceOp::min) == (a < b) ? a : b;
  }
}

__extension__ using Whole = __int128;

template <class T>
T clamped(Whole value) {
  using Limits = std::numeric_limits<T>;
  return static_cast<T>(std::clamp<Whole>(value, Limits::min(), Limits::max()));
}

/// Rounds toward zero. Exception: `factor` may have been rounded from a number whose product reaches the next
/// whole number, which is then the result.
template <class T>
T scaled_integer(T value, double factor) {
  int exponent = 0;
  const auto digits = static_cast<Whole>(std::ldexp(std::frexp(std::fabs(factor), &exponent), 53));
  const Whole size = value < 0 ? -static_cast<Whole>(value) : static_cast<Whole>(value);
  const int sign = (value < 0) != (factor < 0) ? -1 : 1;
  const int shift = 53 - exponent;
  if (size == 0 || digits == 0) return 0;
  if (shift < 0) return clamped<T>(sign * (Whole{1} << 100));  // only large factors of these tests get here
  Whole result = size * digits >> shift;
  const bool was_rounded = digits % (1 << 20) != 0;
  if (was_rounded && (result + 1) << (shift + 1) <= size * (2 * digits + 1)) ++result;
  return clamped<T>(sign * result);
}

template <class T>
T reference_scale(T value, double factor) {
  if constexpr (std::is_same_v<T, bool>) {
    return factor == 0 ? false : value;
  } else if constexpr (kIsHalf<T>) {
    return T(static_cast<float>(value) * static_cast<float>(factor));
  } else if constexpr (kIsReal<T>) {
    return value * static_cast<T>(factor);
  } else {
    return scaled_integer(value, factor);
  }
}

template <class T>
std::string reduce_errors(ReduceOp op, std::size_t length, std::size_t offset) {
  const auto a = mixed_values<T>(length, 3 * length + offset);
  const auto b = mixed_values<T>(length, 7 * length + 1000);
  std::vector<T> want;
  for (std::size_t i = 0; i < length; ++i) want.push_back(reference<T>(op, a[i], b[i]));
  const auto bytes_a = bytes_of(a);
  const auto bytes_b = bytes_of(b);
  const std::vector<std::byte> blank(bytes_a.size());
  Misplaced in_a(bytes_a.data(), bytes_a.size(), offset);
  Misplaced in_b(bytes_b.data(), bytes_b.size(), 0);
  Misplaced out(blank.data(), blank.size(), 2 * offset);
  kernels::reduce(dtype_of<T>, op, out.data(), in_a.data(), in_b.data(), length);
  if (std::string error = check_equal(out, want); !error.empty()) return error;
  Misplaced into_b(bytes_b.data(), bytes_b.size(), offset);
  kernels::reduce(dtype_of<T>, op, into_b.data(), in_a.data(), into_b.data(), length);
  if (std::string error = check_equal(into_b, want); !error.empty()) return "into b: " + error;
  kernels::reduce(dtype_of<T>, op, in_a.data(), in_a.data(), in_b.data(), length);
  if (std::string error = check_equal(in_a, want); !error.empty()) return "into a: " + error;
  return "";
}

/// The average of a sum of reals, rounded once. A float32 sum is multiplied by 1/n as float64.
template <class T, class Sum>
T reference_average(Sum sum, std::uint32_t divisor) {
  const double share = 1.0 / divisor;
  if constexpr (kIsHalf<T>) return T(divisor == 1 ? sum : sum * static_cast<float>(share));
  return T(divisor == 1 ? sum : sum * share);
}

/// Halves are folded in float32. The factor multiplies the sum after it was rounded to the dtype.
template <class T>
T folded(ReduceOp op, const std::vector<std::vector<T>>& operands, std::size_t i, const kernels::Scale& by) {
  const auto scaled = [&](T value) { return by.factor == 1 ? value : reference_scale<T>(value, by.factor); };
  if constexpr (kIsHalf<T>) {
    auto sum = static_cast<float>(operands[0][i]);
    for (std::size_t k = 1; k < operands.size(); ++k)
      sum = reference_real(op, sum, static_cast<float>(operands[k][i]));
    return scaled(reference_average<T>(sum, by.divisor));
  } else {
    T sum = operands[0][i];
    for (std::size_t k = 1; k < operands.size(); ++k) sum = reference<T>(op, sum, operands[k][i]);
    if constexpr (kIsReal<T>) return scaled(reference_average<T>(sum, by.divisor));
    return scaled(sum);
  }
}

template <class T>
std::string reduce_many_errors(ReduceOp op, std::size_t count, std::size_t length, std::size_t offset,
                               const kernels::Scale& by = {}) {
  std::vector<std::vector<T>> operands;
  for (std::size_t k = 0; k < count; ++k) operands.push_back(mixed_values<T>(length, 11 * length + k));
  std::vector<T> want;
  for (std::size_t i = 0; i < length; ++i) want.push_back(folded(op, operands, i, by));
  // into more and more operands, and into other memory
  for (std::size_t result = 0; result <= count; ++result) {
    std::vector<Misplaced> memory;
    for (std::size_t k = 0; k <= count; ++k) {
      const auto bytes = bytes_of(operands[k % count]);
      memory.emplace_back(bytes.data(), bytes.size(), k % 2 == 0 ? offset : 0);
    }
    std::vector<const void*> from;
    for (std::size_t k = 0; k < count; ++k) from.push_back(memory[k].data());
    std::vector<void*> into;  // that operand, and all before it
    for (std::size_t k = 0; k <= result; ++k) into.push_back(memory[result - k].data());
    kernels::reduce_many(dtype_of<T>, op, into, from, length, by);
    for (std::size_t k = 0; k <= result; ++k) {
      if (std::string error = check_equal(memory[k], want); !error.empty())
        return "into " + std::to_string(k) + " of " + std::to_string(count) + ": " + error;
    }
    for (std::size_t k = result + 1; k < count; ++k) {
      if (std::string error = check_equal(memory[k], operands[k]); !error.empty())
        return "beside " + std::to_string(k) + " of " + std::to_string(count) + ": " + error;
    }
  }
  return "";
}

template <class T>
std::string scale_errors(double factor, std::size_t length, std::size_t offset) {
  const auto from = mixed_values<T>(length, 5 * length + offset);
  std::vector<T> want;
  for (const auto value : from) want.push_back(reference_scale<T>(value, factor));
  const auto bytes = bytes_of(from);
  const std::vector<std::byte> blank(bytes.size());
  Misplaced in(bytes.data(), bytes.size(), offset);
  Misplaced out(blank.data(), blank.size(), 0);
  kernels::scale(dtype_of<T>, out.data(), in.data(), length, factor);
  if (std::string error = check_equal(out, want); !error.empty()) return error;
  kernels::scale(dtype_of<T>, in.data(), in.data(), length, factor);
  return check_equal(in, want);
}

}  // namespace

TEST_CASE("reduce equals scalar arithmetic for every target, dtype, op, length and alignment") {
  for (const std::string& target : kernels::target_names()) {
    const OnTarget on(target);
    CHECK(kernels::target_name() == target);
    for (const DType dtype : kDTypes) {
      for (const ReduceOp op : ops_of(dtype)) {
        std::string error;
        for (const std::size_t length : kLengths) {
          for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, size_of(dtype)}) {
            visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
              if (error.empty()) error = reduce_errors<T>(op, length, offset);
            });
          }
        }
        INFO(target << " " << name_of(dtype) << " " << name_of(op) << ": " << error);
        CHECK(error.empty());
      }
    }
  }
}

TEST_CASE(
    "reduce_many folds its operands in their order, halves with one rounding, for every target, dtype and "
    "op") {
  for (const std::string& target : kernels::target_names()) {
    const OnTarget on(target);
    for (const DType dtype : kDTypes) {
      for (const ReduceOp op : ops_of(dtype)) {
        std::string error;
        for (const std::size_t count : {2, 3, 4, 5, 9}) {
          for (const std::size_t length : {0, 1, 15, 33, 129, 1000}) {
            visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
              if (error.empty()) error = reduce_many_errors<T>(op, count, length, size_of(dtype));
            });
          }
        }
        INFO(target << " " << name_of(dtype) << " " << name_of(op) << ": " << error);
        CHECK(error.empty());
      }
    }
  }
}

TEST_CASE("a reduction with a factor equals reducing, rounding, scaling and rounding again") {
  for (const std::string& target : kernels::target_names()) {
    const OnTarget on(target);
    for (const DType dtype : kDTypes) {
      for (const ReduceOp op : ops_of(dtype)) {
        std::string error;
        for (const kernels::Scale by : {kernels::Scale(0),
                                        {0.5},
                                        {1.0 / 3},
                                        {2.34},
                                        {-1.5},
                                        {1e30},
                                        {1, 3},
                                        {1, 4},
                                        {0.1, 3},
                                        {2.34, 4}}) {
          if (by.divisor != 1 && (op != ReduceOp::sum || !is_floating(dtype))) continue;
          for (const std::size_t length : {1, 33, 129, 9001}) {  // the last length is more than one block
            visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
              const std::size_t count = 2 + length % 4;
              if (error.empty()) error = reduce_many_errors<T>(op, count, length, sizeof(T), by);
            });
          }
        }
        INFO(target << " " << name_of(dtype) << " " << name_of(op) << ": " << error);
        CHECK(error.empty());
      }
    }
  }
}

TEST_CASE("an average of halves does not overflow where their sum would") {
  for (const std::string& target : kernels::target_names()) {
    const OnTarget on(target);
    const std::vector<f16> a(100, f16(60000.0f)), b(100, f16(40000.0f));
    std::vector<f16> mean(100);
    const void* const from[] = {a.data(), b.data()};
    void* const into = mean.data();
    kernels::reduce_many(DType::f16, ReduceOp::sum, {&into, 1}, from, mean.size(), {1, 2});
    CHECK(mean == std::vector<f16>(100, f16(50000.0f)));
    // A sum with a factor is rounded to float16 before the factor. It exceeds float16 here.
    kernels::reduce_many(DType::f16, ReduceOp::sum, {&into, 1}, from, mean.size(), 0.5);
    CHECK(mean == std::vector<f16>(100, f16(std::numeric_limits<float>::infinity())));
  }
}

TEST_CASE("scale equals scalar arithmetic for every target, dtype, length and alignment") {
  for (const std::string& target : kernels::target_names()) {
    const OnTarget on(target);
    for (const DType dtype : kDTypes) {
      for (const double factor : {1.0, 0.0, 0.5, 2.0, 1.0 / 3, 0.1, 2.34, -1.5, 1.0 / 49, 1e30}) {
        std::string error;
        for (const std::size_t length : kLengths) {
          for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, size_of(dtype)}) {
            visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
              if (error.empty()) error = scale_errors<T>(factor, length, offset);
            });
          }
        }
        INFO(target << " " << name_of(dtype) << " times " << factor << ": " << error);
        CHECK(error.empty());
      }
    }
  }
}

TEMPLATE_TEST_CASE("every 16-bit float meets every special one exactly as in half.h", "", f16, bf16) {
  std::vector<TestType> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
  for (const std::string& target : kernels::target_names()) {
    const OnTarget on(target);
    for (const ReduceOp op : ops_of(dtype_of<TestType>)) {
      std::size_t wrong = 0;
      for (const TestType other : special_values<TestType>()) {
        const std::vector<TestType> others(all.size(), other);
        std::vector<TestType> got(all.size());
        kernels::reduce(dtype_of<TestType>, op, got.data(), all.data(), others.data(), all.size());
        for (std::size_t i = 0; i < all.size(); ++i) wrong += !same(got[i], reference(op, all[i], other));
      }
      INFO(target << " " << name_of(op));
      CHECK(wrong == 0);
    }
  }
}

/// An element in `wide_dtype`, converted by narrow().
template <class T>
T narrowed(float sum, const kernels::Scale& by) {
  T got;
  kernels::narrow(dtype_of<T>, &got, &sum, 1, by);
  return got;
}

TEMPLATE_TEST_CASE("a factor rounds by itself: it joins neither an average nor another factor", "", f16, bf16,
                   float, double) {
  using Real = std::conditional_t<std::is_same_v<TestType, double>, double, float>;
  const auto number_of = [](TestType value) { return static_cast<Real>(value); };
  const auto times = [&](TestType value, double factor) {
    return TestType(number_of(value) * static_cast<Real>(factor));
  };
  std::size_t joins_differ = 0;
  for (const std::string& target : kernels::target_names()) {
    const OnTarget on(target);
    std::size_t wrong = 0;
    for (int i = 1; i <= 400; ++i) {
      const auto stored = TestType(static_cast<Real>(i * 1.37));
      const Real sum = number_of(stored);
      const auto third = TestType(static_cast<Real>(static_cast<double>(sum) * (1.0 / 3)));
      for (const double factor : {1.0 / 3, 0.1, 2.34}) {
        const TestType want = times(third, factor);
        joins_differ += !same(want, TestType(static_cast<Real>(static_cast<double>(sum) * (factor / 3))));
        TestType got, before = stored;
        kernels::scale(dtype_of<TestType>, &got, &before, 1, {factor, 3});
        wrong += !same(got, want);
        kernels::scale(dtype_of<TestType>, &got, &before, 1, factor);
        kernels::scale(dtype_of<TestType>, &got, &got, 1, 2.34);
        wrong += !same(got, times(times(stored, factor), 2.34));
        if constexpr (kIsHalf<TestType>) {
          wrong += !same(narrowed<TestType>(sum, {factor, 3}), want);
          const float between = sum * (1 + 0x1p-12f);  // not a number of the dtype: rounded before the factor
          wrong += !same(narrowed<TestType>(between, factor), times(TestType(between), factor));
        }
      }
    }
    INFO(target);
    CHECK(wrong == 0);
  }
  CHECK(joins_differ > 0);  // a single product would have given another number
}

TEST_CASE("the average of equal numbers is that number, whatever their number") {
  for (int ranks = 1; ranks <= 300; ++ranks) {
    std::int32_t sum = 7 * ranks;
    kernels::scale(DType::i32, &sum, &sum, 1, 1.0 / ranks);
    CHECK(sum == 7);
    std::int64_t wide = (std::int64_t{1} << 40) * ranks;
    kernels::scale(DType::i64, &wide, &wide, 1, 1.0 / ranks);
    CHECK(wide == std::int64_t{1} << 40);
    float real = 7.0f * static_cast<float>(ranks);
    kernels::scale(DType::f32, &real, &real, 1, {1, static_cast<std::uint32_t>(ranks)});
    CHECK(real == 7.0f);
  }
}

TEST_CASE("integers are scaled as integers") {
  const auto scaled = [](auto value, const kernels::Scale& scale) {
    kernels::scale(dtype_of<decltype(value)>, &value, &value, 1, scale);
    return value;
  };
  constexpr std::int64_t kOne = 1;
  CHECK(scaled(3 * ((kOne << 60) - 1), {1, 3}) == (kOne << 60) - 1);
  CHECK(scaled(3 * (kOne << 40) + 2, {1, 3}) == kOne << 40);
  CHECK(scaled(3 * (kOne << 40) + 2, {1.0 / 3}) == kOne << 40);
  CHECK(scaled(-7, {1, 2}) == -3);  // toward zero
  CHECK(scaled(7, {-0.5}) == -3);
  CHECK(scaled(std::numeric_limits<std::int64_t>::min(), {1, 1}) == std::numeric_limits<std::int64_t>::min());
  CHECK(scaled(std::numeric_limits<std::int64_t>::min(), {1, 3}) ==
        std::numeric_limits<std::int64_t>::min() / 3);
  CHECK(scaled(std::numeric_limits<std::uint64_t>::max(), {1, 3}) ==
        std::numeric_limits<std::uint64_t>::max() / 3);
  CHECK(scaled(std::numeric_limits<std::uint64_t>::max(), {0.5}) ==
        std::numeric_limits<std::uint64_t>::max() / 2);
  CHECK(scaled((kOne << 62) + 1, {0.5}) == kOne << 61);
  CHECK(scaled((kOne << 53) + 1, {3}) == 3 * ((kOne << 53) + 1));
  CHECK(scaled((kOne << 62) + 3, {0x1p-60}) == 4);
  CHECK(scaled(49, {1.0 / 49}) == 1);
  CHECK(scaled(7, {2, 2}) == 7);                // factor and divisor are applied together, rounded once
  CHECK(scaled(std::int8_t{100}, {2}) == 127);  // stays within its type
  CHECK(scaled(std::int8_t{-100}, {2}) == -128);
  CHECK(scaled(std::uint8_t{100}, {-1}) == 0);
  CHECK(scaled(5, {std::numeric_limits<double>::infinity()}) == std::numeric_limits<int>::max());
  CHECK(scaled(5, {std::numeric_limits<double>::quiet_NaN()}) == 0);
  CHECK(scaled(0, {std::numeric_limits<double>::infinity()}) == 0);
  CHECK(scaled(5, {1e-300}) == 0);
}

TEST_CASE("any quotient of whole numbers is exact") {
  std::mt19937_64 random(5);
  std::size_t wrong = 0;
  for (int i = 0; i < 200000; ++i) {
    std::uint64_t value = random() >> random() % 64;
    const auto divisor = static_cast<std::uint32_t>(random() >> (32 + random() % 32)) | 1u;
    if (i % 4 == 0) value = value / divisor * divisor - static_cast<std::uint64_t>(i % 8 / 4);
    std::uint64_t got = 0;
    kernels::scale(DType::u64, &got, &value, 1, {1, divisor});
    wrong += got != value / divisor;
  }
  CHECK(wrong == 0);
}

TEST_CASE("an average of integers narrower than 64 bits is right wherever its sum would not fit") {
  for (const std::string& target : kernels::target_names()) {
    const OnTarget on(target);
    for (const DType dtype : kDTypes) {
      if (is_floating(dtype) || dtype == DType::b8 || size_of(dtype) == 8) continue;
      std::string error;
      visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
          for (const std::size_t count : {2, 3, 7}) {
            for (const std::size_t length : {1, 33, 2500}) {
              std::vector<std::vector<T>> rows;
              std::vector<const void*> from;
              for (std::size_t k = 0; k < count; ++k)
                from.push_back(rows.emplace_back(mixed_values<T>(length, 13 * length + k)).data());
              std::vector<T> want;
              for (std::size_t i = 0; i < length; ++i) {
                Whole sum = 0;
                for (const auto& row : rows) sum += row[i];
                want.push_back(static_cast<T>(sum / static_cast<Whole>(count)));
              }
              std::vector<T> again(length);
              void* const into[] = {rows[1].data(), again.data()};
              kernels::reduce_many(dtype, ReduceOp::sum, into, from, length,
                                   {1, static_cast<std::uint32_t>(count)});
              if (rows[1] != want || again != want)
                error = std::to_string(count) + " of " + std::to_string(length);
            }
          }
        }
      });
      INFO(target << " " << name_of(dtype) << ": " << error);
      CHECK(error.empty());
    }
  }
}

TEST_CASE("what was made wide is narrow again as it was") {
  for (const DType dtype : kDTypes) {
    if (kernels::wide_dtype(dtype) == dtype) continue;
    visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
      if constexpr (!std::is_same_v<T, bool>) {
        const auto values = mixed_values<T>(1000, 3);
        std::vector<std::byte> wide(values.size() * size_of(kernels::wide_dtype(dtype)));
        std::vector<T> back(values.size());
        kernels::widen(dtype, wide.data(), values.data(), values.size());
        kernels::narrow(dtype, back.data(), wide.data(), values.size(), {});
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < values.size(); ++i) wrong += !same(back[i], T(values[i]));
        INFO(name_of(dtype));
        CHECK(wrong == 0);
      }
    });
  }
}

TEST_CASE("any byte but 0 is a true bool") {
  const unsigned char a[] = {0, 0, 2, 2, 1};
  const unsigned char b[] = {0, 4, 1, 4, 0};
  unsigned char either[5], both[5], one[5];
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::bitwise_or}) {
    kernels::reduce(DType::b8, op, either, a, b, 5);
    for (int i = 0; i < 5; ++i) CHECK((either[i] != 0) == (a[i] || b[i]));
  }
  for (const ReduceOp op : {ReduceOp::product, ReduceOp::min, ReduceOp::bitwise_and}) {
    kernels::reduce(DType::b8, op, both, a, b, 5);
    for (int i = 0; i < 5; ++i) CHECK((both[i] != 0) == (a[i] && b[i]));
  }
  kernels::reduce(DType::b8, ReduceOp::bitwise_xor, one, a, b, 5);
  for (int i = 0; i < 5; ++i) CHECK(one[i] == ((a[i] != 0) != (b[i] != 0)));
}

TEST_CASE("the neutral element changes nothing") {
  for (const DType dtype : kDTypes) {
    visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
      const auto values = mixed_values<T>(200, 11);
      for (const ReduceOp op : ops_of(dtype)) {
        auto bytes = bytes_of(values);
        std::vector<std::byte> neutral(bytes.size());
        kernels::fill_neutral(dtype, op, neutral.data(), values.size());
        kernels::reduce(dtype, op, bytes.data(), bytes.data(), neutral.data(), values.size());
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
          T got;
          std::memcpy(static_cast<void*>(&got), bytes.data() + i * sizeof(T), sizeof(T));
          const bool lost_sign = op == ReduceOp::sum && same(got, T(0));  // -0 + 0 is +0
          wrong += !same(got, T(values[i])) && !lost_sign;
        }
        INFO(name_of(dtype) << " " << name_of(op));
        CHECK(wrong == 0);
      }
    });
  }
}

TEST_CASE("kernels leave everything alone when there are no elements") {
  kernels::reduce(DType::f32, ReduceOp::sum, nullptr, nullptr, nullptr, 0);
  kernels::scale(DType::f32, nullptr, nullptr, 0, 2);
  kernels::fill_neutral(DType::f32, ReduceOp::sum, nullptr, 0);
  SUCCEED();
}

}  // namespace dabke::test

// Every kernel against plain scalar arithmetic, on every instruction set that this CPU has.
#include "ops/kernels/kernels.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace dabke {
namespace {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;
template <class T>
inline constexpr bool kIsReal = kIsHalf<T> || std::is_floating_point_v<T>;

constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};
const std::size_t kLengths[] = {0,  1,  2,  3,  7,  8,  9,   15,  16,  17,  31,
                                32, 33, 63, 64, 65, 66, 127, 128, 129, 1000};

/// Tells the test runner which target failed, and goes back to the best one.
struct OnTarget {
  explicit OnTarget(const std::string& name) { kernels::use_target(name); }
  ~OnTarget() { kernels::use_target(""); }
};

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
    return op == ReduceOp::sum || op == ReduceOp::max ? a || b : a && b;
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
    return (op == ReduceOp::min) == (a < b) ? a : b;
  }
}

template <class T>
T reference_scale(T value, double factor) {
  if constexpr (std::is_same_v<T, bool>) {
    return factor == 0 ? false : value;
  } else if constexpr (kIsHalf<T>) {
    return T(static_cast<float>(value) * static_cast<float>(factor));
  } else if constexpr (kIsReal<T>) {
    return static_cast<T>(value * factor);
  } else {
    const long double exact = static_cast<long double>(value) * factor;
    const long double nearest = std::rint(exact);
    const bool is_whole = std::fabs(exact - nearest) <= std::fabs(nearest) * 0x1p-40L;
    const long double chosen = is_whole ? nearest : std::trunc(exact);
    constexpr auto kLeast = std::numeric_limits<T>::min();
    constexpr auto kMost = std::numeric_limits<T>::max();
    if (chosen <= static_cast<long double>(kLeast)) return kLeast;
    if (chosen >= static_cast<long double>(kMost)) return kMost;
    return static_cast<T>(chosen);
  }
}

template <class T>
bool same(T a, T b) {
  if constexpr (kIsReal<T>) {
    const double x = static_cast<double>(static_cast<std::conditional_t<kIsHalf<T>, float, T>>(a));
    const double y = static_cast<double>(static_cast<std::conditional_t<kIsHalf<T>, float, T>>(b));
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  }
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T>
std::vector<T> special_values() {
  if constexpr (std::is_same_v<T, bool>) {
    return {false, true};
  } else if constexpr (kIsHalf<T>) {
    std::vector<T> values;
    for (const std::uint16_t bits :
         {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00, 0x3c01, 0x7bff, 0xfbff,
          0x7c00, 0xfc00, 0x7e00, 0x7c01, 0x3f80, 0x3f81, 0x7f7f, 0x7f80, 0xff80, 0x7fc0, 0x0080}) {
      T value;
      value.bits = bits;
      values.push_back(value);
    }
    return values;
  } else if constexpr (kIsReal<T>) {
    using L = std::numeric_limits<T>;
    return {T(0),           T(-0.0),         T(1),     T(-1),       L::min(),
            -L::min(),      L::denorm_min(), L::max(), L::lowest(), L::infinity(),
            -L::infinity(), L::quiet_NaN(),  T(1e8),   T(-1e8),     T(0.1)};
  } else {
    using L = std::numeric_limits<T>;
    return {T(0),
            T(1),
            static_cast<T>(-1),
            L::min(),
            L::max(),
            static_cast<T>(L::max() - 1),
            static_cast<T>(L::min() + 1),
            T(100)};
  }
}

/// Any bit pattern, and every fourth value a special one.
template <class T>
std::vector<T> mixed_values(std::size_t count, std::uint64_t seed) {
  const std::vector<T> special = special_values<T>();
  std::mt19937_64 random(seed);
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = random();
    T value = special[bits % special.size()];
    if constexpr (!std::is_same_v<T, bool>) {
      if (bits >> 62) std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
    }
    values.push_back(value);
  }
  return values;
}

/// Memory at a chosen distance from an aligned address, with a guard on both sides that nobody may touch.
class Misplaced {
 public:
  Misplaced(const void* from, std::size_t bytes, std::size_t offset)
      : memory_(bytes + 256, std::byte{0xA5}), bytes_(bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    start_ = (64 - address % 64) % 64 + 64 + offset;
    if (bytes != 0) std::memcpy(data(), from, bytes);
  }
  std::byte* data() { return memory_.data() + start_; }
  bool guards_hold() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if ((i < start_ || i >= start_ + bytes_) && memory_[i] != std::byte{0xA5}) return false;
    }
    return true;
  }

 private:
  std::vector<std::byte> memory_;
  std::size_t bytes_;
  std::size_t start_ = 0;
};

template <class T>
std::string check_equal(Misplaced& got, const std::vector<T>& want) {
  if (!got.guards_hold()) return "wrote outside";
  for (std::size_t i = 0; i < want.size(); ++i) {
    T value;
    std::memcpy(static_cast<void*>(&value), got.data() + i * sizeof(T), sizeof(T));
    if (!same(value, T(want[i])))
      return "element " + std::to_string(i) + " of " + std::to_string(want.size()) + " differs";
  }
  return "";
}

// vector<bool> has no data(); bools travel as bytes.
template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value = values[i];
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
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

/// As one: halves are folded in float32 and rounded at the end.
template <class T>
T folded(ReduceOp op, const std::vector<std::vector<T>>& operands, std::size_t i) {
  if constexpr (kIsHalf<T>) {
    auto sum = static_cast<float>(operands[0][i]);
    for (std::size_t k = 1; k < operands.size(); ++k)
      sum = reference_real(op, sum, static_cast<float>(operands[k][i]));
    return T(sum);
  } else {
    T sum = operands[0][i];
    for (std::size_t k = 1; k < operands.size(); ++k) sum = reference<T>(op, sum, operands[k][i]);
    return sum;
  }
}

template <class T>
std::string reduce_many_errors(ReduceOp op, std::size_t count, std::size_t length, std::size_t offset) {
  std::vector<std::vector<T>> operands;
  std::vector<Misplaced> memory;
  for (std::size_t k = 0; k < count; ++k) {
    operands.push_back(mixed_values<T>(length, 11 * length + k));
    const auto bytes = bytes_of(operands.back());
    memory.emplace_back(bytes.data(), bytes.size(), k % 2 == 0 ? offset : 0);
  }
  std::vector<T> want;
  for (std::size_t i = 0; i < length; ++i) want.push_back(folded(op, operands, i));
  std::vector<const void*> from;
  for (Misplaced& one : memory) from.push_back(one.data());
  const std::vector<std::byte> blank(length * sizeof(T));
  Misplaced out(blank.data(), blank.size(), 2 * offset);
  kernels::reduce_many(dtype_of<T>, op, out.data(), from.data(), count, length);
  if (std::string error = check_equal(out, want); !error.empty()) return error;
  Misplaced& last = memory.back();
  kernels::reduce_many(dtype_of<T>, op, last.data(), from.data(), count, length);
  if (std::string error = check_equal(last, want); !error.empty()) return "into the last: " + error;
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
      for (const ReduceOp op : kOps) {
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
      for (const ReduceOp op : kOps) {
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

TEST_CASE("scale equals scalar arithmetic for every target, dtype, length and alignment") {
  for (const std::string& target : kernels::target_names()) {
    const OnTarget on(target);
    for (const DType dtype : kDTypes) {
      for (const double factor : {1.0, 0.0, 0.5, 2.0, 1.0 / 3, -1.5, 1.0 / 49, 1e30}) {
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
    for (const ReduceOp op : kOps) {
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

TEST_CASE("the average of equal integers is that integer, whatever their number") {
  for (int ranks = 1; ranks <= 300; ++ranks) {
    std::int32_t sum = 7 * ranks;
    kernels::scale(DType::i32, &sum, &sum, 1, 1.0 / ranks);
    CHECK(sum == 7);
    std::int64_t wide = (std::int64_t{1} << 40) * ranks;
    kernels::scale(DType::i64, &wide, &wide, 1, 1.0 / ranks);
    CHECK(wide == std::int64_t{1} << 40);
    float real = 7.0f * static_cast<float>(ranks);
    kernels::scale(DType::f32, &real, &real, 1, 1.0 / ranks);
    CHECK(real == 7.0f);
  }
}

TEST_CASE("any byte but 0 is a true bool") {
  const unsigned char a[] = {0, 0, 2, 2, 1};
  const unsigned char b[] = {0, 4, 1, 4, 0};
  unsigned char either[5], both[5];
  kernels::reduce(DType::b8, ReduceOp::sum, either, a, b, 5);
  kernels::reduce(DType::b8, ReduceOp::product, both, a, b, 5);
  for (int i = 0; i < 5; ++i) {
    CHECK((either[i] != 0) == (a[i] || b[i]));
    CHECK((both[i] != 0) == (a[i] && b[i]));
  }
}

TEST_CASE("the neutral element changes nothing") {
  for (const DType dtype : kDTypes) {
    visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
      const auto values = mixed_values<T>(200, 11);
      for (const ReduceOp op : kOps) {
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

}  // namespace dabke

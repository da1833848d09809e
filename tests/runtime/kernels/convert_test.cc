// Conversions, compared with those of half.h, on every instruction set of this CPU.
#include <bit>

#include <catch2/catch.hpp>

#include "tests/runtime/kernels/values.h"

namespace dabke::test {
namespace {

/// All bit patterns; or the values on and beside every border where rounding to a 16-bit float changes.
template <class T>
std::vector<T> telling_values() {
  std::vector<T> values;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    if constexpr (kIsHalf<T>) {
      T half;
      half.bits = static_cast<std::uint16_t>(bits);
      values.push_back(half);
    } else {
      f16 narrow;
      narrow.bits = static_cast<std::uint16_t>(bits);
      // One of these is half a unit of bfloat16 above a bfloat16, the other
      // half a unit of float16 above a float16.
      for (const std::uint32_t base :
           {bits << 16 | 0x8000, std::bit_cast<std::uint32_t>(static_cast<float>(narrow)) + 0x1000}) {
        for (const std::uint32_t word : {base - 0x1000, base - 1, base, base + 1})
          values.push_back(std::bit_cast<float>(word));
      }
      // Below float16's normal numbers, the unit is always 2^-24.
      values.push_back(static_cast<float>(bits) * 0x1p-26f);
    }
  }
  return values;
}

template <class Into, class From>
Into converted(From value) {
  return Into(static_cast<float>(value));
}

template <class Into, class From>
std::string convert_errors(const std::vector<From>& from, std::size_t offset) {
  std::vector<Into> want;
  for (const From value : from) want.push_back(converted<Into>(value));
  const auto bytes = bytes_of(from);
  const std::vector<std::byte> blank(want.size() * sizeof(Into));
  Misplaced in(bytes.data(), bytes.size(), offset);
  Misplaced out(blank.data(), blank.size(), 3 * offset);
  kernels::convert(dtype_of<Into>, out.data(), dtype_of<From>, in.data(), from.size());
  if (std::string error = check_equal(out, want); !error.empty()) return error;
  if (sizeof(Into) > sizeof(From)) return "";
  kernels::convert(dtype_of<Into>, in.data(), dtype_of<From>, in.data(), from.size());
  return check_equal(in, want);
}

/// Calls `use` for each ordered pair of dtypes that can be converted.
template <class Use>
void for_pairs(Use use) {
  const auto into_each = [&]<class From>(std::type_identity<From> from) {
    use(from, std::type_identity<f16>());
    use(from, std::type_identity<bf16>());
    use(from, std::type_identity<float>());
  };
  into_each(std::type_identity<f16>());
  into_each(std::type_identity<bf16>());
  into_each(std::type_identity<float>());
}

}  // namespace

TEST_CASE("conversions round to nearest even, over all 16-bit floats and every border between them") {
  for (const std::string& target : kernels::target_names()) {
    const OnTarget on(target);
    for_pairs([&]<class From, class Into>(std::type_identity<From>, std::type_identity<Into>) {
      const std::string error = convert_errors<Into>(telling_values<From>(), 0);
      INFO(target << " " << name_of(dtype_of<From>) << " to " << name_of(dtype_of<Into>) << ": " << error);
      CHECK(error.empty());
    });
  }
}

TEST_CASE("conversions of any length at any address write what they should and nothing else") {
  for (const std::string& target : kernels::target_names()) {
    const OnTarget on(target);
    for_pairs([&]<class From, class Into>(std::type_identity<From>, std::type_identity<Into>) {
      std::string error;
      for (const std::size_t length : kLengths) {
        for (const std::size_t offset : {0, 1, 2}) {
          if (error.empty()) error = convert_errors<Into>(mixed_values<From>(length, 13 * length), offset);
        }
      }
      INFO(target << " " << name_of(dtype_of<From>) << " to " << name_of(dtype_of<Into>) << ": " << error);
      CHECK(error.empty());
    });
  }
}

TEST_CASE("what goes to float32 and back is the same number, subnormals and infinities included") {
  for (const std::string& target : kernels::target_names()) {
    const OnTarget on(target);
    const auto round_trip = [&]<class Half>(std::type_identity<Half>) {
      const auto all = telling_values<Half>();
      std::vector<float> wide(all.size());
      std::vector<Half> back(all.size());
      kernels::convert(DType::f32, wide.data(), dtype_of<Half>, all.data(), all.size());
      kernels::convert(dtype_of<Half>, back.data(), DType::f32, wide.data(), all.size());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < all.size(); ++i) wrong += !same(back[i], all[i]);
      return wrong;
    };
    CAPTURE(target);
    CHECK(round_trip(std::type_identity<f16>()) == 0);
    CHECK(round_trip(std::type_identity<bf16>()) == 0);
  }
}

TEST_CASE("a conversion to the same dtype is a copy, and of no elements is nothing") {
  std::vector<std::int64_t> from = {1, -2, 3}, into(3);
  kernels::convert(DType::i64, into.data(), DType::i64, from.data(), from.size());
  CHECK(into == from);
  kernels::convert(DType::f16, nullptr, DType::f32, nullptr, 0);
}

}  // namespace dabke::test

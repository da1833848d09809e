// The kernels against those of the host, through a stream of the double.
#include <algorithm>
#include <cstring>
#include <random>

#include <catch2/catch.hpp>

#include "tests/ops/nccl/session.h"

namespace dabke::testing {
namespace {

std::shared_ptr<DeviceStream> open_stream() { return must(session().open(Device{DeviceType::cuda, 0})); }

/// Bytes that are numbers in every dtype, and booleans in that.
std::vector<std::byte> elements_of(DType dtype, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count * size_of(dtype));
  visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < count; ++i) {
      T value;
      const int number = static_cast<int>(random() % 200) - 100;
      if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
        value = T(static_cast<float>(number) / 4);
      } else if constexpr (std::is_same_v<T, bool>) {
        value = number > 0;
      } else {
        value = static_cast<T>(number);
      }
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return bytes;
}

struct Conversion {
  DType to;
  DType from;
};

std::vector<Conversion> conversions() {
  std::vector<Conversion> all;
  for (const DType dtype : kDTypes) {
    all.push_back({dtype, dtype});
    const DType wide = kernels::wide_dtype(dtype);
    if (wide != dtype) all.insert(all.end(), {{wide, dtype}, {dtype, wide}});
  }
  return all;
}

}  // namespace

TEST_CASE("the kernels of a GPU copy, scale and convert as the host's do, to the bit") {
  const auto stream = open_stream();
  constexpr kernels::Scale kScales[] = {1, 0.5, 3, {1, 3}, {2, 7}, 0, -1.25};
  for (const auto [to, from] : conversions()) {
    for (const kernels::Scale& by : kScales) {
      // widen() has no divisor, and 16-bit floats are scaled in another way by each: in steps that are exact.
      if (to == kernels::wide_dtype(from) && to != from && by.divisor != 1) continue;
      if ((to == DType::f16 || to == DType::bf16) && by.divisor != 1) continue;
      const std::size_t count = 5000;
      CAPTURE(name_of(to), name_of(from), by.factor, by.divisor);
      const auto input = elements_of(from, count, 7);
      std::vector<std::byte> want(count * size_of(to));
      const ElementCopy on_host{want.data(), input.data(), count};
      must(host_stream().copy({&on_host, 1}, to, from, by));
      std::vector<std::byte> got(want.size());
      const ElementCopy on_device{got.data(), input.data(), count};
      must(stream->copy({&on_device, 1}, to, from, by));
      await_all(*stream);
      CHECK(std::ranges::equal(got, want));
    }
  }
}

TEST_CASE("hundreds of pieces are copied whatever their lengths and wherever they begin") {
  const auto stream = open_stream();
  std::mt19937 random(11);
  std::vector<std::byte> from(1 << 20);
  for (std::byte& byte : from) byte = static_cast<std::byte>(random());
  std::vector<std::byte> to(from.size());
  std::vector<std::byte> want(from.size());
  std::vector<ElementCopy> pieces;
  std::size_t at = 0;
  for (int i = 0; i < 700; ++i) {
    const std::size_t length = i % 50 == 0 ? 70000 % (1 + random() % 70000) : random() % 300;
    const std::size_t skip = random() % 40;
    if (at + skip + length + 64 > from.size()) break;
    const std::size_t source = random() % (from.size() - length);
    pieces.push_back({to.data() + at + skip, from.data() + source, length});
    std::memcpy(want.data() + at + skip, from.data() + source, length);
    at += skip + length;
  }
  must(stream->copy(pieces, DType::u8, DType::u8, 1));
  await_all(*stream);
  CHECK(pieces.size() > 300);
  CHECK(to == want);
}

TEST_CASE("elements at odd addresses are scaled as others are") {
  const auto stream = open_stream();
  const auto input = elements_of(DType::f32, 100, 3);
  std::vector<std::byte> odd(input.size() + 1);
  std::memcpy(odd.data() + 1, input.data(), input.size());
  std::vector<std::byte> want(input.size());
  const ElementCopy on_host{want.data(), input.data(), 100};
  must(host_stream().copy({&on_host, 1}, DType::f32, DType::f32, 2));
  const ElementCopy on_device{odd.data() + 1, odd.data() + 1, 100};
  must(stream->copy({&on_device, 1}, DType::f32, DType::f32, 2));
  await_all(*stream);
  CHECK(std::equal(want.begin(), want.end(), odd.begin() + 1));
}

TEST_CASE("neutral elements are the host's") {
  const auto stream = open_stream();
  for (const DType dtype : kDTypes) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
      CAPTURE(name_of(dtype), name_of(op));
      std::vector<std::byte> want(10000 * size_of(dtype));
      kernels::fill_neutral(dtype, op, want.data(), 10000);
      std::vector<std::byte> got(want.size());
      must(stream->fill_neutral(dtype, op, got.data(), 10000));
      await_all(*stream);
      CHECK(got == want);
    }
  }
}

TEST_CASE("what is copied to the host and back comes out as it was") {
  const auto stream = open_stream();
  const std::vector<std::byte> from = elements_of(DType::i64, 1000, 5);
  const DeviceBuffer device = allocate_from(stream->memory(), from.size());
  const DeviceBuffer pinned = allocate_from(stream->host_memory(), from.size());
  must(stream->copy_from_host(device.get(), from.data(), from.size()));
  must(stream->copy_to_host(pinned.get(), device.get(), from.size()));
  await_all(*stream);
  CHECK(std::memcmp(pinned.get(), from.data(), from.size()) == 0);
  must(stream->clear(device.get(), from.size()));
  must(stream->copy_to_host(pinned.get(), device.get(), from.size()));
  await_all(*stream);
  const std::vector<std::byte> zeros(from.size());
  CHECK(std::memcmp(pinned.get(), zeros.data(), zeros.size()) == 0);
}

}  // namespace dabke::testing

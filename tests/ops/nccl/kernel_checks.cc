#include "tests/ops/nccl/kernel_checks.h"

#include <cstring>
#include <random>
#include <span>
#include <thread>

#include <fmt/format.h>

#include "tests/in_process/rank.h"

namespace dabke::test {
namespace {

using Bytes = std::vector<std::byte>;
using Texts = std::vector<std::string>;

/// Memory of the device. The host reads and writes it only by copies.
class OnDevice {
 public:
  OnDevice(DeviceStream& stream, std::size_t bytes)
      : stream_(stream), bytes_(bytes), memory_(allocate_from(stream.memory(), bytes)) {
    if (memory_ == nullptr) throw std::runtime_error(fmt::format("no {} bytes on the device", bytes));
  }
  OnDevice(DeviceStream& stream, const Bytes& from) : OnDevice(stream, from.size()) {
    must(stream.copy_from_host(data(), from.data(), from.size()));
    finish();
  }
  std::byte* data() const { return static_cast<std::byte*>(memory_.get()); }
  Bytes read() const {
    Bytes there(bytes_);
    must(stream_.copy_to_host(there.data(), data(), bytes_));
    finish();
    return there;
  }

 private:
  void finish() const {
    const auto end = must(stream_.record());
    while (!must(end->is_reached())) std::this_thread::yield();
  }

  DeviceStream& stream_;
  const std::size_t bytes_;
  const DeviceBuffer memory_;
};

/// Bytes that are numbers in every dtype, and valid booleans.
Bytes elements_of(DType dtype, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count * size_of(dtype));
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

Bytes zeros(std::size_t count) { return Bytes(count); }

void hold(Texts& wrong, const std::string& what, const Bytes& got, const Bytes& want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (got[i] == want[i]) continue;
    wrong.push_back(fmt::format("{}: byte {} is {:#x} instead of {:#x}", what, i,
                                std::to_integer<int>(got[i]), std::to_integer<int>(want[i])));
    return;
  }
}

}  // namespace

Texts wrong_copies(DeviceStream& stream) {
  Texts wrong;
  constexpr kernels::Scale kScales[] = {1, 0.5, 3, 1.0 / 3, 2.34, {1, 3}, {2, 7}, {0.1, 3}, 0, -1.25};
  constexpr std::size_t kCount = 5003;  // not whole vectors, and more than one block
  for (const auto [to, from] : conversions()) {
    const Bytes input = elements_of(from, kCount, 7);
    const OnDevice there(stream, input);
    for (const kernels::Scale& by : kScales) {
      // Nothing is widened with a divisor. Host and device multiply sums of
      // 16-bit floats by 1/n in different ways.
      if (to == kernels::wide_dtype(from) && to != from && by.divisor != 1) continue;
      if ((to == DType::f16 || to == DType::bf16) && by.divisor != 1) continue;
      Bytes want(kCount * size_of(to));
      const ElementCopy on_host{want.data(), input.data(), kCount};
      must(host_stream().copy({&on_host, 1}, to, from, by));
      const OnDevice output(stream, zeros(want.size()));
      const ElementCopy on_device{output.data(), there.data(), kCount};
      must(stream.copy({&on_device, 1}, to, from, by));
      hold(wrong, fmt::format("{} from {}, times {}/{}", name_of(to), name_of(from), by.factor, by.divisor),
           output.read(), want);
    }
  }
  return wrong;
}

Texts wrong_pieces(DeviceStream& stream) {
  Texts wrong;
  std::mt19937 random(11);
  Bytes from(2 << 20);
  for (std::byte& byte : from) byte = static_cast<std::byte>(random());
  const OnDevice source(stream, from);
  const OnDevice target(stream, zeros(from.size()));
  Bytes want(from.size());
  std::vector<ElementCopy> pieces;
  std::size_t at = 0;
  for (int i = 0; i < 1500; ++i) {
    const std::size_t length = i % 50 == 0 ? 70000 % (1 + random() % 70000) : random() % 300;
    const std::size_t skip = random() % 40;
    if (at + skip + length + 64 > from.size()) break;
    const std::size_t first = random() % (from.size() - length);
    pieces.push_back({target.data() + at + skip, source.data() + first, length});
    std::memcpy(want.data() + at + skip, from.data() + first, length);
    at += skip + length;
  }
  if (pieces.size() <= 1100) wrong.push_back(fmt::format("{} pieces are too few", pieces.size()));
  must(stream.copy(pieces, DType::u8, DType::u8, 1));
  hold(wrong, fmt::format("{} pieces", pieces.size()), target.read(), want);
  return wrong;
}

Texts wrong_odd_addresses(DeviceStream& stream) {
  Texts wrong;
  constexpr std::size_t kCount = 5003;
  const Bytes input = elements_of(DType::f32, kCount, 3);
  // In place, at addresses that are not aligned to an element, or to a vector of elements.
  for (const std::size_t before : {1, 2, 4, 8, 12, 16}) {
    Bytes there(before);
    there.insert(there.end(), input.begin(), input.end());
    Bytes want = there;
    const ElementCopy on_host{want.data() + before, input.data(), kCount};
    must(host_stream().copy({&on_host, 1}, DType::f32, DType::f32, 2));
    const OnDevice on(stream, there);
    const ElementCopy on_device{on.data() + before, on.data() + before, kCount};
    must(stream.copy({&on_device, 1}, DType::f32, DType::f32, 2));
    hold(wrong, fmt::format("float32 in place, {} bytes behind where memory begins", before), on.read(),
         want);
  }
  // From one dtype to another, with one of the addresses not aligned to a vector.
  const Bytes narrow = elements_of(DType::bf16, kCount, 5);
  for (const auto& [at, from] :
       {std::pair<std::size_t, std::size_t>{0, 2}, {4, 0}, {16, 8}, {1, 3}, {12, 6}}) {
    Bytes source(from);
    source.insert(source.end(), narrow.begin(), narrow.end());
    Bytes want(at + kCount * 4);
    const ElementCopy on_host{want.data() + at, narrow.data(), kCount};
    must(host_stream().copy({&on_host, 1}, DType::f32, DType::bf16, 1));
    const OnDevice input_there(stream, source);
    const OnDevice output(stream, zeros(want.size()));
    const ElementCopy on_device{output.data() + at, input_there.data() + from, kCount};
    must(stream.copy({&on_device, 1}, DType::f32, DType::bf16, 1));
    hold(wrong, fmt::format("bfloat16, {} bytes off, to float32, {} bytes off", from, at), output.read(),
         want);
  }
  return wrong;
}

Texts wrong_neutral_elements(DeviceStream& stream) {
  Texts wrong;
  for (const DType dtype : kDTypes) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
      Bytes want(10000 * size_of(dtype));
      kernels::fill_neutral(dtype, op, want.data(), 10000);
      const OnDevice there(stream, zeros(want.size()));
      must(stream.fill_neutral(dtype, op, there.data(), 10000));
      hold(wrong, fmt::format("neutral elements of {} {}", name_of(op), name_of(dtype)), there.read(), want);
    }
  }
  return wrong;
}

Texts wrong_transfers(DeviceStream& stream) {
  Texts wrong;
  const Bytes from = elements_of(DType::i64, 1000, 5);
  const OnDevice there(stream, from);
  hold(wrong, "what was copied there and back", there.read(), from);
  must(stream.clear(there.data(), from.size()));
  hold(wrong, "what was cleared", there.read(), zeros(from.size()));
  const DeviceBuffer pinned = allocate_from(stream.host_memory(), from.size());
  std::memcpy(pinned.get(), from.data(), from.size());
  must(stream.copy_from_host(there.data(), pinned.get(), from.size()));
  hold(wrong, "what came from pinned memory", there.read(), from);
  return wrong;
}

}  // namespace dabke::test

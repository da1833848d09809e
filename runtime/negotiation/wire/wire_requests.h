// The bytes of requests and slots, which messages up and orders down contain.
#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/base/possible_shape.h"
#include "runtime/negotiation/wire/wire_archive.h"

namespace dabke::wire {

template <class Archive, class S>
void shape(Archive& archive, S& value, DType dtype) {
  std::vector<std::int64_t> dims(value.dims().begin(), value.dims().end());
  list(archive, dims);
  if constexpr (Archive::kReading) {
    value = Shape(dims);
    if (!is_possible(value, dtype)) archive.fail("a shape with an impossible dimension");
  }
}

template <class Archive, class T>
void call_field(Archive& archive, T& value, std::string_view name) {
  if constexpr (std::is_enum_v<T>) {
    checked_enum(archive, value, static_cast<std::uint64_t>(kLast<std::remove_const_t<T>>), name);
  } else {
    archive(value);
  }
}

template <class Archive, Is<TensorSpec> T>
void fields(Archive& archive, T& tensor) {
  archive(tensor.name);
  checked_enum(archive, tensor.dtype, static_cast<std::uint64_t>(kLast<DType>), "dtype");
  shape(archive, tensor.shape, tensor.dtype);
}

template <class Archive, Is<Status> S>
void status(Archive& archive, S& status) {
  Code code = status.code();
  std::string text = status.message();
  checked_enum(archive, code, static_cast<std::uint64_t>(Code::internal), "status code");
  if (code != Code::ok) archive(text);
  if constexpr (Archive::kReading) status = {code, std::move(text)};
}

template <class Archive, Is<Request> R>
void fields(Archive& archive, R& request) {
  archive(request.name);
  archive(request.process_set);
  for_each_call_field([&](const auto& field) {
    if (field.is_each_tensors) return;
    using Call = std::conditional_t<std::is_const_v<R>, const CallSpec, CallSpec>;
    call_field(archive, static_cast<Call&>(request).*field.value, field.name);
  });
  archive(request.priority);
  list(archive, request.tensors);
  list(archive, request.ranks);
  status(archive, request.refused);
  archive(request.is_group);
}

template <class Archive, class R>
void request_ref(Archive& archive, R& request) {
  if constexpr (Archive::kReading) {
    auto read = std::make_shared<Request>();
    fields(archive, *read);
    request = std::move(read);
  } else if constexpr (std::is_same_v<Archive, Sizer>) {
    const Request least;
    fields(archive, least);
  } else {
    fields(archive, *request);
  }
}

struct SlotRun {
  Slot first;
  std::uint64_t length;
};

inline std::size_t varint_bytes(std::uint64_t value) {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
}

template <class Archive>
void slots(Archive& archive, const std::vector<Slot>& all) requires(!Archive::kReading) {
  std::vector<SlotRun> runs;
  std::size_t run_bytes = 0;
  for (const Slot slot : all) {
    if (!runs.empty() && runs.back().first + runs.back().length == slot) {
      ++runs.back().length;
    } else {
      runs.push_back({slot, 1});
      run_bytes += varint_bytes(slot) + 1;
    }
  }
  if (runs.size() > 1) {
    const auto [least, most] = std::ranges::minmax(all);
    const std::uint64_t bytes = (most - least) / 8 + 1;
    if (bytes < run_bytes) {
      archive(std::uint8_t{1});
      archive.varint(least);
      archive.varint(bytes);
      std::vector<std::uint8_t> bits(bytes);
      for (const Slot slot : all)
        bits[(slot - least) / 8] |= static_cast<std::uint8_t>(1U << ((slot - least) % 8));
      for (const std::uint8_t byte : bits) archive(byte);
      return;
    }
  }
  archive(std::uint8_t{0});
  archive.varint(runs.size());
  for (const SlotRun& run : runs) {
    archive.varint(run.first);
    archive.varint(run.length);
  }
}

inline void slots(Reader& archive, std::vector<Slot>& all) {
  const std::uint8_t form = archive.byte();
  if (form == 1) {
    const Slot first = archive.varint();
    const std::uint64_t bytes = archive.varint();
    if (bytes > archive.left() || bytes > (kNoSlot - first) / 8) {
      return archive.fail("a bitmap longer than the message");
    }
    for (std::uint64_t i = 0; i < bytes; ++i) {
      unsigned byte = archive.byte();
      if (!archive.allows_numbered(first, static_cast<unsigned>(std::popcount(byte)), "slots")) return;
      for (; byte != 0; byte &= byte - 1) {
        all.push_back(first + i * 8 + static_cast<unsigned>(std::countr_zero(byte)));
      }
    }
    return;
  }
  if (form != 0) return archive.fail("slots of an unknown form");
  for (std::uint64_t runs = archive.varint(); runs > 0 && !archive.failed(); --runs) {
    const Slot first = archive.varint();
    const std::uint64_t length = archive.varint();
    if (!archive.allows_numbered(first, length, "slots")) return;
    for (std::uint64_t i = 0; i < length; ++i) all.push_back(first + i);
  }
}

}  // namespace dabke::wire

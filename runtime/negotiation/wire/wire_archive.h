// Writes and reads the parts of the negotiation's messages: numbers, text and lists.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "runtime/negotiation/wire/wire.h"

namespace dabke::wire {

static_assert(std::endian::native == std::endian::little, "the wire format is the native one here");

// One list of fields serves three archives: `archive(field)` writes the field, reads it, or counts the fewest
// bytes that it can take.

template <class T, class Plain>
concept Is = std::is_same_v<std::remove_const_t<T>, Plain>;

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}
  static constexpr bool kReading = false;

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void operator()(const T& value) { append(&value, sizeof value); }
  void operator()(const std::string& text) {
    count(text.size());
    append(text.data(), text.size());
  }
  void count(std::size_t n) { varint(n); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<std::byte>(value | 0x80));
    out_.push_back(static_cast<std::byte>(value));
  }

 private:
  void append(const void* from, std::size_t bytes) {
    const auto* first = static_cast<const std::byte*>(from);
    out_.insert(out_.end(), first, first + bytes);
  }
  std::vector<std::byte>& out_;
};

/// Counts the bytes of a default-constructed value on the wire. No value takes fewer: fields of a fixed width
/// always take it, text, lists and varints take at least a byte, and optional parts are absent.
class Sizer {
 public:
  static constexpr bool kReading = false;

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void operator()(const T&) { bytes_ += sizeof(T); }
  void operator()(const std::string&) { ++bytes_; }
  void count(std::size_t) { ++bytes_; }
  void varint(std::uint64_t) { ++bytes_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  static constexpr bool kReading = true;

  template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) || std::is_enum_v<T> void operator()(
                                                                       T& value) {
    if (const std::byte* from = take(sizeof value)) std::memcpy(&value, from, sizeof value);
  }
  void operator()(bool& value) {
    std::uint8_t byte = 0;
    (*this)(byte);
    if (byte > 1) fail("a flag that is neither 0 nor 1");
    value = byte == 1;
  }
  void operator()(std::string& text) {
    const std::size_t n = count(1);
    if (const std::byte* from = take(n)) text.assign(reinterpret_cast<const char*>(from), n);
  }
  /// Reads a list's length. Each element takes at least `least_bytes`, so an impossible length is refused
  /// before anything is allocated for it.
  std::size_t count(std::size_t least_bytes) {
    const std::uint64_t n = varint();
    if (n > in_.size() / least_bytes) {
      fail("a list longer than the message");
      return 0;
    }
    return n;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      std::uint8_t byte = 0;
      (*this)(byte);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail("a number of more than 64 bits");
    return 0;
  }
  void varint(std::uint64_t& value) { value = varint(); }
  void varint(std::uint32_t& value) {
    const std::uint64_t wide = varint();
    if (wide > std::numeric_limits<std::uint32_t>::max()) fail("a number of more than 32 bits");
    value = static_cast<std::uint32_t>(wide);
  }
  /// True if `count` numbers from `first` on may follow. The whole message has one allowance, because a few
  /// bytes can represent a million of them.
  bool allows_numbered(std::uint64_t first, std::uint64_t count, std::string_view what) {
    if (count <= numbered_left_ && count <= kNoSlot - first) {
      numbered_left_ -= count;
      return true;
    }
    fail(fmt::format("too many {}", what));
    return false;
  }
  std::uint8_t byte() {
    std::uint8_t value = 0;
    (*this)(value);
    return value;
  }
  void fail(std::string_view why) {
    if (error_.empty()) error_ = why;
    in_ = {};
  }
  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }
  std::size_t left() const { return in_.size(); }

 private:
  const std::byte* take(std::size_t bytes) {
    if (bytes > in_.size()) {
      fail("the message ends too early");
      return nullptr;
    }
    const std::byte* from = in_.data();
    in_ = in_.subspan(bytes);
    return from;
  }
  std::span<const std::byte> in_;
  std::string error_;
  std::uint64_t numbered_left_ = kMostSlotsInMessage;
};

template <class Archive, class T>
void element(Archive& archive, T& item) {
  if constexpr (std::is_arithmetic_v<T> || std::is_same_v<std::remove_const_t<T>, std::string>) {
    archive(item);
  } else {
    fields(archive, item);
  }
}

/// The fewest bytes that an element of a list takes, from the list of its fields.
template <class T>
std::size_t least_bytes() {
  Sizer sizer;
  const T least{};
  element(sizer, least);
  return sizer.bytes();
}

template <class Archive, class T>
void list(Archive& archive, T& items) {
  if constexpr (Archive::kReading) {
    items.resize(archive.count(least_bytes<typename T::value_type>()));
  } else {
    archive.count(items.size());
  }
  for (auto& item : items) {
    if constexpr (Archive::kReading) {
      if (archive.failed()) return;
    }
    element(archive, item);
  }
}

template <class Archive, class E>
void checked_enum(Archive& archive, E& value, std::uint64_t most, std::string_view what) {
  archive(value);
  if constexpr (Archive::kReading) {
    if (static_cast<std::uint64_t>(value) > most) archive.fail(fmt::format("an unknown {}", what));
  }
}

}  // namespace dabke::wire

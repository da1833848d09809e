// The encoding of the values in a frame. Whole numbers take eight bytes, little-endian; strings and lists
// follow their length. A struct can be sent if it has `fields`, the list from which both directions are made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace dabke::launcher {

class WireWriter {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  std::string take() { return std::move(bytes_); }

 private:
  void put_number(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }
  void put(const std::string& text) {
    put_number(text.size());
    bytes_ += text;
  }
  template <class T>
  void put(const std::vector<T>& list) {
    put_number(list.size());
    for (const T& each : list) put(each);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& both) {
    put(both.first);
    put(both.second);
  }
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      put_number(static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
    } else {
      T::fields(*this, value);
    }
  }

  std::string bytes_;
};

/// Reads what WireWriter wrote. After a malformed value the remaining values are unchanged, and is_good() is
/// false.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  /// True if all bytes have been read and none was missing.
  bool is_good() const { return good_ && bytes_.empty(); }

 private:
  std::uint64_t number() {
    std::uint64_t value = 0;
    if (bytes_.size() < 8) {
      good_ = false;
      return 0;
    }
    for (int i = 0; i < 8; ++i)
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[static_cast<std::size_t>(i)]))
               << (8 * i);
    bytes_.remove_prefix(8);
    return value;
  }
  /// Reads the number of elements that follow. Each takes at least a byte, so a wrong number never reserves
  /// too much.
  std::size_t count() {
    const std::uint64_t value = number();
    if (value > bytes_.size()) good_ = false;
    return good_ ? static_cast<std::size_t>(value) : 0;
  }
  void get(std::string& text) {
    const std::size_t size = count();
    text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
  }
  template <class T>
  void get(std::vector<T>& list) {
    const std::size_t size = count();
    list.clear();
    for (std::size_t i = 0; i < size && good_; ++i) get(list.emplace_back());
  }
  template <class A, class B>
  void get(std::pair<A, B>& both) {
    get(both.first);
    get(both.second);
  }
  template <class T>
  void get(T& value) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      value = static_cast<T>(number());
    } else {
      T::fields(*this, value);
    }
  }

  std::string_view bytes_;
  bool good_ = true;
};

/// Returns the bytes of a frame of `message`.
template <class T>
std::string to_wire(const T& message) {
  WireWriter writer;
  T::fields(writer, message);
  return writer.take();
}

/// False if the bytes are not such a message.
template <class T>
bool from_wire(std::string_view bytes, T& message) {
  WireReader reader(bytes);
  T::fields(reader, message);
  return reader.is_good();
}

}  // namespace dabke::launcher

// Appends the text of an event to a buffer. Every tensor causes about ten events, so this is made fast: most
// pieces are copies whose length the compiler can see.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

namespace dabke::timeline {

/// A text of at most kMost characters that is appended many times.
class ShortText {
 public:
  static constexpr std::size_t kMost = 24;

  void append(std::string_view text) {
    std::memcpy(chars_.data() + size_, text.data(), text.size());
    size_ += text.size();
  }
  void append(std::uint64_t number) {
    const fmt::format_int digits(number);
    append(std::string_view(digits.data(), digits.size()));
  }
  std::string_view text() const { return {chars_.data(), size_}; }

 private:
  friend class EventText;

  std::array<char, kMost> chars_ = {};
  std::size_t size_ = 0;
};

class EventText {
 public:
  explicit EventText(fmt::memory_buffer& out) : out_(out) { make_room(kRoom); }
  ~EventText() { out_.resize(static_cast<std::size_t>(at_ - out_.data())); }
  EventText(const EventText&) = delete;
  EventText& operator=(const EventText&) = delete;

  template <std::size_t kSize>
  void add(const char (&literal)[kSize]) {
    need(kSize - 1);
    std::memcpy(at_, literal, kSize - 1);
    at_ += kSize - 1;
  }
  void add(const ShortText& text) {
    need(ShortText::kMost);
    std::memcpy(at_, text.chars_.data(), ShortText::kMost);
    at_ += text.size_;
  }
  void add(std::string_view text) {
    need(text.size());
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
  }
  void add(std::uint64_t number) {
    const fmt::format_int digits(number);
    add(std::string_view(digits.data(), digits.size()));
  }

 private:
  static constexpr std::size_t kRoom = 256;

  void need(std::size_t size) {
    if (static_cast<std::size_t>(end_ - at_) < size) {
      out_.resize(static_cast<std::size_t>(at_ - out_.data()));
      make_room(size + kRoom);
    }
  }
  void make_room(std::size_t size) {
    if (out_.capacity() - out_.size() < size) out_.reserve(out_.size() + size);  // grows by at least half
    at_ = out_.data() + out_.size();
    end_ = out_.data() + out_.capacity();
  }

  fmt::memory_buffer& out_;
  char* at_ = nullptr;
  char* end_ = nullptr;
};

}  // namespace dabke::timeline

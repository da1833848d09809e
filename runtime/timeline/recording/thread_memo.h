// A thread's cache of the timeline that it recorded in last, so that a record needs no search.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "runtime/timeline/name_table.h"

namespace dabke::timeline {

class ThreadMemo {
 public:
  /// The calling thread's cache for this timeline. The cache is emptied for a new timeline, also one at the
  /// address of an earlier one.
  static ThreadMemo& of(const void* timeline, std::int64_t opened_ns, NameTable& names) {
    thread_local ThreadMemo memo;
    if (memo.timeline_ != timeline || memo.opened_ns_ != opened_ns) memo.begin(timeline, opened_ns, names);
    return memo;
  }

  std::uint32_t thread() const { return thread_; }
  LastNames& last() { return last_; }

  /// Returns the number of a short text that is recorded many times.
  std::uint32_t text(std::string_view text, NameTable& names) {
    Text& known = texts_[reinterpret_cast<std::uintptr_t>(text.data()) / 8 % texts_.size()];
    if (known.size == text.size() && std::memcmp(known.chars.data(), text.data(), text.size()) == 0)
      return known.number;
    const std::uint32_t number = names.number_of(NameKind::text, text, last_);
    if (text.size() > known.chars.size()) return number;
    std::memcpy(known.chars.data(), text.data(), text.size());
    known.size = text.size();
    known.number = number;
    return number;
  }

 private:
  struct Text {
    std::array<char, 40> chars{};
    std::size_t size = 0;  // 0 if the entry is empty
    std::uint32_t number = 0;
  };

  void begin(const void* timeline, std::int64_t opened_ns, NameTable& names) {
    *this = {};
    std::array<char, 32> name{};
    if (::pthread_getname_np(::pthread_self(), name.data(), name.size()) != 0) name[0] = '\0';
    thread_ = names.number_of(NameKind::thread, fmt::format("{} {}", name.data(), ::gettid()), last_);
    timeline_ = timeline;
    opened_ns_ = opened_ns;
  }

  const void* timeline_ = nullptr;
  std::int64_t opened_ns_ = 0;
  std::uint32_t thread_ = 0;
  LastNames last_{};
  std::array<Text, 16> texts_{};
};

}  // namespace dabke::timeline

// The arguments of an event as they are written, one behind the other.
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "runtime/timeline/event_names.h"
#include "runtime/timeline/json_text.h"

namespace dabke::timeline {

/// Microseconds, as the format wants them; no digit of the nanoseconds is lost. Readers multiply by 1000 and cut off the rest,
/// and in doubles that makes 1000 ns of 1.001: an event would end behind the one that it lies in. Where it does, a tenth of a
/// nanosecond is added.
struct Micros {
  std::int64_t ns;

  bool is_cut_short() const {
    return static_cast<std::int64_t>(static_cast<double>(ns) / 1000.0 * 1000.0) != ns;
  }
};

}  // namespace dabke::timeline

template <>
struct fmt::formatter<dabke::timeline::Micros> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  auto format(const dabke::timeline::Micros& time, format_context& context) const {
    return fmt::format_to(context.out(), "{}.{:03}{}", time.ns / 1000, time.ns % 1000,
                          time.is_cut_short() ? "1" : "");
  }
};

namespace dabke::timeline {

class EventArguments {
 public:
  template <std::integral T>
  EventArguments& add(Argument key, T value) {
    return put(key, fmt::format("{}", value));  // a bool is "true"
  }
  EventArguments& add(Argument key, std::string_view text) { return put(key, json_string(text)); }
  EventArguments& add(Argument key, Micros time) { return put(key, fmt::format("{}", time)); }
  std::string_view text() const { return text_; }

 private:
  EventArguments& put(Argument key, std::string_view value) {
    if (!text_.empty()) text_ += ',';
    text_ += key_of(key);
    text_ += value;
    return *this;
  }

  std::string text_;
};

}  // namespace dabke::timeline

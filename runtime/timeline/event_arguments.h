// Collects the arguments of an event as JSON text, in the order in which they are added.
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

/// A time that is written in microseconds, as the trace format requires, with all digits of its nanoseconds.
/// Readers multiply by 1000 in doubles and cut off the fraction, so 1.001 becomes 1000 ns. An event could
/// then end after the event that contains it. A time that would be cut short gets a further digit, a tenth of
/// a nanosecond.
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
    return put(key, fmt::format("{}", value));  // a bool becomes "true" or "false"
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

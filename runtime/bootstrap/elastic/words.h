// Lines of words, as the texts have them that ranks and dabkerun leave in the store.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace dabke::bootstrap {

/// The number that is the whole of `text`; none: it is not one.
template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// The number, or "-" for none.
inline std::string optional_word(const std::optional<std::uint64_t>& number) {
  return number ? std::to_string(*number) : "-";
}

/// `text` without line breaks.
inline std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// Removes the first line of `text` and returns it.
inline std::string_view take_line(std::string_view& text) {
  const auto end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

/// Reads one line word by word.
class Words {
 public:
  explicit Words(std::string_view line) : left_(line) {}

  std::string_view word() {
    const auto end = std::min(left_.find(' '), left_.size());
    const std::string_view word = left_.substr(0, end);
    left_.remove_prefix(std::min(end + 1, left_.size()));
    return word;
  }
  template <class Number>
  void number(Number& value) {
    const auto found = number_of<Number>(word());
    is_well_formed_ = is_well_formed_ && found;
    value = found.value_or(Number());
  }
  void optional_number(std::optional<std::uint64_t>& value) {
    const std::string_view found = word();
    value = number_of<std::uint64_t>(found);
    is_well_formed_ = is_well_formed_ && (value || found == "-");
  }
  std::string_view rest() const { return left_; }
  /// False if a number was asked for where there was none.
  bool are_well_formed() const { return is_well_formed_; }

 private:
  std::string_view left_;
  bool is_well_formed_ = true;
};

}  // namespace dabke::bootstrap

// The text with which dabkerun answers an arrival. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dabke::bootstrap {

struct Answer {
  enum class Kind {
    joined,       // the process is a member of `epoch`
    left,         // it has left the job in good order
    written_off,  // the job went on without it
  };
  Kind kind = Kind::joined;
  std::uint64_t epoch = 0;
  std::string why;  // one line; empty if it has joined
  friend bool operator==(const Answer&, const Answer&) = default;
};

std::string to_text(const Answer& answer);
/// None if the text makes no sense.
std::optional<Answer> read_answer(std::string_view text);

}  // namespace dabke::bootstrap

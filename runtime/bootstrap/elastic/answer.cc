#include "runtime/bootstrap/elastic/answer.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include <fmt/format.h>

#include "runtime/bootstrap/elastic/words.h"

namespace dabke::bootstrap {
namespace {

constexpr std::array<std::string_view, 3> kKinds{"joined", "left", "written-off"};

}  // namespace

std::string to_text(const Answer& answer) {
  return fmt::format("{} {} {}", kKinds[static_cast<std::size_t>(answer.kind)], answer.epoch,
                     one_line(answer.why));
}

std::optional<Answer> read_answer(std::string_view text) {
  Words line(text);
  const auto kind = std::ranges::find(kKinds, line.word());
  Answer answer;
  line.number(answer.epoch);
  answer.why = line.rest();
  if (kind == kKinds.end() || !line.are_well_formed()) return std::nullopt;
  answer.kind = static_cast<Answer::Kind>(kind - kKinds.begin());
  return answer;
}

}  // namespace dabke::bootstrap

#include "launcher/reach/shell_words.h"

#include <cstddef>
#include <optional>

#include <fmt/format.h>

namespace dabke::launcher {
namespace {

constexpr std::string_view kQuotes = "'\"";
constexpr char kSingle = kQuotes[0], kDouble = kQuotes[1];

}  // namespace

Result<std::vector<std::string>> split_shell_words(std::string_view line) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = 0;  // the open quote
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool is_blank = c == ' ' || c == '\t' || c == '\n';
    if (quote == 0 && is_blank) {
      if (word) words.push_back(*word);
      word.reset();
      continue;
    }
    if (!word) word.emplace();
    if (quote == 0 && kQuotes.find(c) != std::string_view::npos) {
      quote = c;
    } else if (quote != 0 && c == quote) {
      quote = 0;
    } else if (c == '\\' && quote != kSingle) {
      if (i + 1 == line.size()) return Status(Code::invalid_argument, "nothing follows the last backslash");
      const char next = line[++i];
      // Within double quotes a backslash represents itself before most characters.
      if (quote == kDouble && next != kDouble && next != '\\' && next != '$' && next != '`') *word += c;
      *word += next;
    } else {
      *word += c;
    }
  }
  if (quote != 0) return Status(Code::invalid_argument, fmt::format("a {} is not closed", quote));
  if (word) words.push_back(*word);
  return words;
}

}  // namespace dabke::launcher

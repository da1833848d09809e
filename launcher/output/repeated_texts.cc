#include "launcher/output/repeated_texts.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace dabke::launcher {
namespace {

constexpr std::size_t kMostReports = 16;
constexpr std::size_t kMostBytes = 4096;  // of a text: longer texts are shown unchanged
constexpr std::size_t kLeastCommon = 80;  // bytes that are worth a reference
constexpr std::size_t kKept = 60;         // of them, so that a reader recognises the text
constexpr Duration kStaysOnScreen = std::chrono::seconds(10);

/// Returns where Dabke's message begins in a line; the size of the line if it has none.
std::size_t message_at(std::string_view line) {
  if (line.starts_with("dabke.errors.")) return 0;
  if (!line.starts_with('[')) return line.size();
  const auto end = line.find("] ");
  const std::string_view head = line.substr(0, end == std::string_view::npos ? 0 : end);
  const bool is_ours = head.find("dabke rank ") != std::string_view::npos &&
                       (head.ends_with(" error") || head.ends_with(" warning"));
  return is_ours ? end + 2 : line.size();
}

struct Common {
  std::size_t begin = 0;  // in the first text
  std::size_t size = 0;
};

/// Returns the longest part of `text` that `other` contains, too.
Common longest_common(std::string_view text, std::string_view other) {
  Common best;
  std::vector<std::size_t> ending(other.size() + 1),
      before(other.size() + 1);  // at each position: the length of the part that ends there
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::swap(ending, before);
    for (std::size_t j = 0; j < other.size(); ++j) {
      ending[j + 1] = text[i] == other[j] ? before[j] + 1 : 0;
      if (ending[j + 1] > best.size) best = {i + 1 - ending[j + 1], ending[j + 1]};
    }
  }
  return best;
}

}  // namespace

std::string RepeatedTexts::shown(std::string_view line, int rank, TimePoint now) {
  std::size_t end = line.size();
  while (end > 0 && (line[end - 1] == '\n' || line[end - 1] == '\r')) --end;
  const std::size_t begin = message_at(line.substr(0, end));
  const std::string_view text = line.substr(std::min(begin, end), end - std::min(begin, end));
  if (text.size() < kLeastCommon || text.size() > kMostBytes) return std::string(line);
  std::erase_if(reports_, [&](const Report& each) { return now - each.at > kStaysOnScreen; });
  for (const Report& report : reports_) {
    const Common common = longest_common(text, report.text);
    if (common.size < kLeastCommon || common.size * 2 < text.size()) continue;
    const auto common_end = common.begin + common.size;
    const auto cut = std::min(text.find(' ', common.begin + kKept), common_end);
    std::string_view rest = text.substr(common_end);  // from the word on in which they differ
    if (!rest.empty()) rest = text.substr(text.rfind(' ', common_end));
    return fmt::format("{}{}... (as rank {} reported){}{}", line.substr(0, begin), text.substr(0, cut),
                       report.rank, rest, line.substr(end));
  }
  Report& report = reports_.emplace_back();
  report.text = text;
  report.rank = rank;
  report.at = now;
  if (reports_.size() > kMostReports) reports_.pop_front();
  return std::string(line);
}

}  // namespace dabke::launcher

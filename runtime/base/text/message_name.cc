#include "runtime/base/text/message_name.h"

#include <charconv>

#include <fmt/format.h>

namespace dabke {
namespace {

constexpr std::string_view kSet = ", process set ";

}  // namespace

std::string message_name(std::string_view name, Rank from, Rank to, std::int64_t tag, ProcessSetId set) {
  std::string text = fmt::format("{} [{} to {}", name, from, to);
  if (tag != 0) text += fmt::format(", tag {}", tag);
  if (set != kWorldSet) text += fmt::format("{}{}", kSet, set);
  return text + "]";
}

ProcessSetId set_of_message(std::string_view message_name) {
  ProcessSetId set = kWorldSet;
  const auto ends = message_name.rfind('[');
  const auto at = message_name.rfind(kSet);
  // The caller's name may contain the same words.
  if (ends == std::string_view::npos || at == std::string_view::npos || at < ends) return set;
  std::from_chars(message_name.data() + at + kSet.size(), message_name.data() + message_name.size(), set);
  return set;
}

}  // namespace dabke

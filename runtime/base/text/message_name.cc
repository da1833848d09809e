#include "runtime/base/text/message_name.h"

#include <charconv>

#include <fmt/format.h>

namespace dabke {
namespace {

constexpr std::string_view kSet = ", process set ";
constexpr std::string_view kFromAny = " [any to ";

}  // namespace

std::string message_name(std::string_view name, Rank from, Rank to, std::int64_t tag, ProcessSetId set) {
  std::string text = from == kAnyRank ? fmt::format("{}{}{}", name, kFromAny, to)
                                      : fmt::format("{} [{} to {}", name, from, to);
  if (tag != 0) text += fmt::format(", tag {}", tag);
  if (set != kWorldSet) text += fmt::format("{}{}", kSet, set);
  return text + "]";
}

bool is_name_from_any(std::string_view message_name) {
  const auto at = message_name.rfind('[');
  return at != std::string_view::npos && at > 0 && message_name.substr(at - 1).starts_with(kFromAny);
}

std::string with_sender(std::string_view name_from_any, Rank sender) {
  const auto at = name_from_any.rfind(kFromAny);  // the caller's name may contain the same words
  return fmt::format("{} [{} to {}", name_from_any.substr(0, at), sender,
                     name_from_any.substr(at + kFromAny.size()));
}

std::string_view callers_name(std::string_view message_name) {
  const auto at = message_name.rfind(" [");
  return message_name.substr(0, at);
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

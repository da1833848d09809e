#include "runtime/timeline/open_events.h"

#include <tuple>

#include <fmt/format.h>

#include "runtime/timeline/event_arguments.h"

namespace dabke::timeline {
namespace {

constexpr std::string_view kEnd = ",\n{{\"ph\":\"E\",\"ts\":{},\"pid\":{},\"args\":{{{}}}}}";

std::string end_of(std::string_view pid, std::string_view time_us) {
  return fmt::format(kEnd, time_us, pid, EventArguments().add(Argument::unfinished, true).text());
}

/// Returns the number behind `key`. The keys come before all arguments, and a text cannot contain a key: its
/// quotes are escaped.
std::string_view number_behind(std::string_view event, std::string_view key) {
  const std::size_t found = event.find(key);
  if (found == std::string_view::npos) return {};
  event.remove_prefix(found + key.size());
  return event.substr(0, event.find_first_not_of("0123456789."));
}

}  // namespace

void OpenEvents::add(std::string_view event) {
  const bool begins = event.starts_with(R"({"ph":"B")");
  const bool ends = event.starts_with(R"({"ph":"E")");
  // All times have the same number of decimals, so a longer text is a later time.
  if (const std::string_view time = number_behind(event, R"("ts":)");
      std::tuple(time.size(), time) > std::tuple(last_us_.size(), std::string_view(last_us_)))
    last_us_ = time;
  if (!begins && !ends) return;
  const std::string_view pid = number_behind(event, R"("pid":)");
  auto open = open_.find(pid);
  if (begins) {
    if (open == open_.end()) open = open_.emplace(pid, 0).first;
    ++open->second;
    ++count_;
    pid_bytes_ += pid.size();
  } else if (open != open_.end()) {
    if (--open->second == 0) open_.erase(open);
    --count_;
    pid_bytes_ -= pid.size();
  }
}

std::string OpenEvents::ends() const {
  std::string text;
  for (const auto& [pid, count] : open_) {
    for (std::size_t i = 0; i < count; ++i) text += end_of(pid, last_us_);
  }
  return text;
}

std::size_t OpenEvents::ends_size() const {
  static const std::size_t kFixed = end_of({}, {}).size();
  return count_ * (kFixed + last_us_.size()) + pid_bytes_;
}

}  // namespace dabke::timeline

#include "launcher/job/job_losses.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/base/text/counted.h"

namespace dabke::launcher {
namespace {

/// More are only counted.
constexpr std::size_t kMostNamed = 8;

}  // namespace

void JobLosses::add(int rank, TimePoint time, std::string text) {
  last_.push_back(text);
  if (last_.size() > kMostNamed) last_.pop_front();
  of_epoch_.push_back({rank, time, std::move(text)});
  ++count_;
}

std::optional<TimePoint> JobLosses::first_time() const {
  return of_epoch_.empty() ? std::nullopt : std::optional(of_epoch_.front().time);
}

std::string JobLosses::text_of(int rank) const {
  const auto found = std::ranges::find(of_epoch_, rank, &Loss::rank);
  return found == of_epoch_.end() ? "" : found->text;
}

std::vector<std::string> JobLosses::lines() const {
  std::vector<std::string> lines;
  for (const std::string& text : last_) lines.push_back("lost: " + text);
  if (count_ > last_.size())
    lines.push_back(fmt::format("lost: and {} earlier", counted(count_ - last_.size(), "rank")));
  return lines;
}

}  // namespace dabke::launcher

#include "runtime/negotiation/tables/stall_log.h"

#include <algorithm>

namespace dabke::negotiation {
namespace {

constexpr std::size_t kMostTold = 256;  // if there are more, some are reported in full again

}  // namespace

const StallLog::Reported* StallLog::find(const std::string& what, TimePoint since) const {
  const auto reported = std::ranges::find(reported_, what, &Reported::what);
  return reported == reported_.end() || reported->at < since ? nullptr : &*reported;
}

void StallLog::note(const std::string& what, const std::string& story, bool in_full, TimePoint now) {
  Reported next{what, now, now, story};
  if (const auto before = std::ranges::find(reported_, what, &Reported::what); before != reported_.end()) {
    if (!in_full) next.full_at = before->full_at;
    reported_.erase(before);
  }
  if (reported_.size() == kMostTold) reported_.erase(reported_.begin());
  reported_.push_back(std::move(next));
}

}  // namespace dabke::negotiation

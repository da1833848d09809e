#include "runtime/negotiation/tables/stall_log.h"

#include <algorithm>

namespace dabke {
namespace {

constexpr std::size_t kMostTold = 256;  // where there are more, some are told in full again

}  // namespace

const StallLog::Told* StallLog::find(const std::string& what, TimePoint since) const {
  const auto told = std::ranges::find(told_, what, &Told::what);
  return told == told_.end() || told->at < since ? nullptr : &*told;
}

void StallLog::note(const std::string& what, const std::string& story, bool in_full, TimePoint now) {
  Told next{what, now, now, story};
  if (const auto before = std::ranges::find(told_, what, &Told::what); before != told_.end()) {
    if (!in_full) next.full_at = before->full_at;
    told_.erase(before);
  }
  if (told_.size() == kMostTold) told_.erase(told_.begin());
  told_.push_back(std::move(next));
}

}  // namespace dabke

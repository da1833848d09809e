#include "runtime/transport/init_failure.h"

#include <fmt/format.h>

namespace dabke {
namespace {

/// Reports of reports grow.
constexpr std::size_t kMostText = 2000;
constexpr std::size_t kMostNamed = 8;

std::string key_of(Rank rank) { return fmt::format("init-failed/{}", rank); }

}  // namespace

void tell_init_failure(Store& store, Rank rank, const Status& why) {
  // Nobody reads it where the store is gone.
  (void)store.set(key_of(rank), why.message().substr(0, kMostText));
}

AbsentRanks describe_absent(Store& store, const World& world, std::span<const Rank> absent,
                            Duration patience) {
  AbsentRanks told;
  TimePoint until = Clock::now() + patience;
  for (std::size_t i = 0; i < absent.size() && i < kMostNamed; ++i) {
    const Rank rank = absent[i];
    told.who += fmt::format("{}{}", i == 0 ? "" : ", ", world.name_of(rank));
    if (!told.reported.empty()) continue;
    const auto report = store.get(key_of(rank), until);
    until = TimePoint{};  // the rest without waiting
    if (report.is_ok()) told.reported = fmt::format(" (rank {} gave up: {})", rank, *report);
  }
  if (absent.size() > kMostNamed) told.who += fmt::format(" and {} more", absent.size() - kMostNamed);
  return told;
}

}  // namespace dabke

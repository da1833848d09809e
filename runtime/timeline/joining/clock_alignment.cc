#include "runtime/timeline/joining/clock_alignment.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace dabke::timeline {
namespace {

/// A time beyond every clock. A file may contain any number, and sums of such numbers must not overflow.
constexpr std::int64_t kFar = std::int64_t{1} << 62;

/// Ranks with equal keys share a clock.
using ClockKey = std::pair<std::string, std::uint64_t>;

ClockKey key_of(const RecordFile::Origin& origin) {
  const bool is_known = !origin.clock.boot_id.empty();
  return {is_known ? origin.clock.boot_id : "host " + origin.host, origin.clock.time_namespace};
}

using RankKey = std::pair<std::uint64_t, Rank>;  // epoch and rank

/// The parent of the first comparison; there must be one.
RankKey parent_of(const ClockFacts& rank) { return {rank.origin.epoch, rank.samples.front().parent}; }

std::map<RankKey, ClockKey> keys_of(const std::vector<ClockFacts>& ranks) {
  std::map<RankKey, ClockKey> keys;
  for (const ClockFacts& rank : ranks) keys[{rank.origin.epoch, rank.origin.rank}] = key_of(rank.origin);
  return keys;
}

/// The comparisons of the clock `from` with the clock `to`: those of one rank in each epoch.
std::vector<ClockSample> comparisons(const std::vector<ClockFacts>& ranks,
                                     const std::map<RankKey, ClockKey>& of_rank, const ClockKey& from,
                                     const ClockKey& to) {
  std::vector<ClockSample> all;
  std::set<std::uint64_t> epochs;
  for (const ClockFacts& rank : ranks) {
    if (rank.samples.empty() || key_of(rank.origin) != from) continue;
    const RankKey parent = parent_of(rank);
    const auto clock = of_rank.find(parent);
    if (clock == of_rank.end() || clock->second != to || !epochs.insert(rank.origin.epoch).second) continue;
    std::ranges::copy_if(rank.samples, std::back_inserter(all),
                         [&](const ClockSample& one) { return one.parent == parent.second; });
  }
  std::ranges::stable_sort(all, {}, &ClockSample::at_ns);
  return all;
}

/// Interpolates between the samples on both sides. Before the first sample and after the last, the offset is
/// constant.
std::int64_t ahead_at(const std::vector<ClockSample>& samples, std::int64_t at_ns) {
  const auto after = std::ranges::upper_bound(samples, at_ns, {}, &ClockSample::at_ns);
  if (after == samples.begin()) return after->ahead_ns;
  const ClockSample& before = *std::prev(after);
  if (after == samples.end()) return before.ahead_ns;
  const double part =
      static_cast<double>(at_ns - before.at_ns) / static_cast<double>(after->at_ns - before.at_ns);
  return before.ahead_ns +
         static_cast<std::int64_t>(part * static_cast<double>(after->ahead_ns - before.ahead_ns));
}

}  // namespace

std::string_view name_of(AlignedClock::Source source) {
  switch (source) {
    case AlignedClock::Source::same: return "same";
    case AlignedClock::Source::compared: return "compared";
    case AlignedClock::Source::wall: return "wall";
  }
  return "unknown";
}

std::int64_t AlignedClock::at(std::int64_t time_ns) const {
  for (const auto& samples : hops_) time_ns = std::clamp(time_ns + ahead_at(*samples, time_ns), -kFar, kFar);
  return std::clamp(time_ns + wall_offset_ns_, -kFar, kFar);
}

std::int64_t AlignedClock::offset_ns() const {
  if (hops_.empty()) return wall_offset_ns_;
  const std::int64_t middle = (*hops_.front())[hops_.front()->size() / 2].at_ns;
  return at(middle) - middle;
}

std::optional<std::int64_t> AlignedClock::error_ns() const {
  if (source_ == Source::wall) return std::nullopt;
  std::int64_t sum = 0;
  for (const auto& samples : hops_)
    sum = std::min(kFar, sum + std::ranges::max(*samples, {}, &ClockSample::error_ns).error_ns);
  return sum;
}

std::vector<AlignedClock> align_clocks(const std::vector<ClockFacts>& ranks) {
  const std::map<RankKey, ClockKey> of_rank = keys_of(ranks);
  std::map<ClockKey, AlignedClock> known;
  if (!ranks.empty()) known[key_of(ranks.front().origin)] = {};

  // Extend the known clocks with those that ranks have compared with a known one, until no new clock is
  // found.
  for (bool is_new = true; is_new;) {
    is_new = false;
    for (const ClockFacts& rank : ranks) {
      const ClockKey key = key_of(rank.origin);
      if (rank.samples.empty() || known.contains(key)) continue;
      const auto parent = of_rank.find(parent_of(rank));
      const auto onward = parent == of_rank.end() ? known.end() : known.find(parent->second);
      if (onward == known.end()) continue;
      AlignedClock clock = onward->second;
      clock.hops_.insert(clock.hops_.begin(), std::make_shared<const AlignedClock::Samples>(
                                                  comparisons(ranks, of_rank, key, parent->second)));
      if (clock.source_ == AlignedClock::Source::same) clock.source_ = AlignedClock::Source::compared;
      known.emplace(key, std::move(clock));
      is_new = true;
    }
  }

  std::vector<AlignedClock> aligned;
  for (const ClockFacts& rank : ranks) {
    auto found = known.find(key_of(rank.origin));
    if (found == known.end()) {
      const auto ahead = [](const RecordFile::Origin& origin) {
        return origin.realtime_ns - origin.monotonic_ns;
      };
      AlignedClock wall;
      wall.source_ = AlignedClock::Source::wall;
      wall.wall_offset_ns_ = ahead(rank.origin) - ahead(ranks.front().origin);
      found = known.emplace(key_of(rank.origin), wall).first;
    }
    aligned.push_back(found->second);
  }
  return aligned;
}

}  // namespace dabke::timeline

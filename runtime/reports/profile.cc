#include "runtime/reports/profile.h"
#include "runtime/base/text/counted.h"

#include <algorithm>

#include <fmt/format.h>

namespace dabke::reports {
namespace {

double per(double total, std::uint64_t count) { return count == 0 ? 0 : total / static_cast<double>(count); }

}  // namespace

void Profile::ran(const BatchReport& batch) {
  const std::lock_guard lock(mutex_);
  Row& row = rows_[{batch.kind, std::string(batch.backend)}];
  row.kind = batch.kind;
  row.backend = batch.backend;
  ++row.batches;
  row.tensors += batch.tensors;
  row.bytes += batch.size_bytes;
  row.seconds += batch.seconds;
}

void Profile::Wait::add(const Wait& more) {
  fastest = tensors == 0 ? more.fastest : std::min(fastest, more.fastest);
  tensors += more.tensors;
  seconds += more.seconds;
}

void Profile::waited(CollectiveKind kind, const Wait& wait) {
  const std::lock_guard lock(mutex_);
  waits_[kind].add(wait);
}

void Profile::late(Rank rank, CollectiveKind kind, double seconds) {
  const std::lock_guard lock(mutex_);
  Late& late = late_[{kind, rank}];
  ++late.times;
  late.seconds += seconds;
}

void Profile::cache(std::uint64_t hits, std::uint64_t misses) {
  const std::lock_guard lock(mutex_);
  hits_ = hits;
  misses_ = misses;
}

std::vector<Profile::Row> Profile::rows() const {
  const std::lock_guard lock(mutex_);
  std::vector<Row> out;
  for (const auto& [key, row] : rows_) out.push_back(row);
  return out;
}

double Profile::fastest_wait() const {
  const std::lock_guard lock(mutex_);
  const auto fastest =
      std::ranges::min_element(waits_, {}, [](const auto& wait) { return wait.second.fastest; });
  return fastest == waits_.end() ? 0 : fastest->second.fastest;
}

std::map<Rank, Profile::Late> Profile::lateness() const {
  const std::lock_guard lock(mutex_);
  std::map<Rank, Late> by_rank;
  for (const auto& [key, late] : late_) {
    by_rank[key.second].times += late.times;
    by_rank[key.second].seconds += late.seconds;
  }
  return by_rank;
}

std::pair<std::uint64_t, std::uint64_t> Profile::cache_hits_and_misses() const {
  const std::lock_guard lock(mutex_);
  return {hits_, misses_};
}

std::string Profile::to_text(int size, double wall_seconds) const {
  const auto by_rank = lateness();
  const std::lock_guard lock(mutex_);
  std::string text = fmt::format(
      "dabke profile of rank 0 of {}: {:.3f} s from init to shutdown\n"
      "{:<14} {:<8} {:>9} {:>10} {:>12} {:>11} {:>11} {:>7} {:>13} {:>10}  {}\n",
      size, wall_seconds, "collective", "backend", "batches", "tensors", "bytes/batch", "seconds", "us/batch",
      "% wall", "us to order", "fastest", "slowest rank");
  for (const auto& [key, row] : rows_) {
    const CollectiveKind kind = row.kind;
    const auto wait = waits_.find(kind);
    const auto slowest = std::ranges::max_element(late_, {}, [kind](const auto& entry) {
      return entry.first.first == kind ? entry.second.seconds : -1.0;
    });
    const bool known = slowest != late_.end() && slowest->first.first == kind;
    text += fmt::format(
        "{:<14} {:<8} {:>9} {:>10} {:>12.0f} {:>11.3f} {:>11.1f} {:>7.2f} {:>13.1f} {:>10.1f}  {}\n",
        name_of(kind), row.backend.empty() ? "-" : row.backend, row.batches, row.tensors,
        per(static_cast<double>(row.bytes), row.batches), row.seconds, per(row.seconds * 1e6, row.batches),
        wall_seconds > 0 ? row.seconds / wall_seconds * 100 : 0,
        wait == waits_.end() ? 0 : per(wait->second.seconds * 1e6, wait->second.tensors),
        wait == waits_.end() ? 0 : wait->second.fastest * 1e6,
        known ? fmt::format("{} ({:.3f} s)", slowest->first.second, slowest->second.seconds) : "-");
  }
  if (hits_ + misses_ > 0) {
    text +=
        fmt::format("response cache: {:.1f} % of {} negotiations used it\n",
                    100 * static_cast<double>(hits_) / static_cast<double>(hits_ + misses_), hits_ + misses_);
  }
  std::vector<std::pair<Rank, Late>> latest(by_rank.begin(), by_rank.end());
  std::ranges::sort(latest, std::greater<>(), [](const auto& entry) { return entry.second.seconds; });
  constexpr std::size_t kShown = 8;
  for (std::size_t i = 0; i < std::min(latest.size(), kShown); ++i) {
    const auto& [rank, late] = latest[i];
    text += fmt::format("{} rank {:>5}: came last {}, after {:.3f} s in all\n",
                        i == 0 ? "kept waiting:" : "             ", rank, counted(late.times, "time"),
                        late.seconds);
  }
  if (latest.size() > kShown)
    text += fmt::format("              and {} more\n", counted(latest.size() - kShown, "rank"));
  return text;
}

}  // namespace dabke::reports

#include "benchmarks/perf/report/targets.h"

#include <fmt/format.h>

#include "benchmarks/perf/competitors/competitor.h"

namespace dabke::perf {
namespace {

constexpr double kAgainstMpi = 1.5, kAgainstGloo = 3.3;
// at most so many times the bound, in registered memory
constexpr double kBounds = 1.1, kBoundsInCache = 2;
constexpr std::int64_t kLarge = std::int64_t{1} << 20;  // from here on, memory is the limit

/// The longest time of an allreduce, as a multiple of one plain copy per rank. With more ranks than cores,
/// the copies of the ranks also take turns.
double most_copies(const Row& row) { return row.ranks > row.cores ? 1.5 : 1.25; }

/// Shared memory, called directly, against all others: the other's time divided by its own.
std::optional<Target> raw_target(const Row& row, const std::vector<Row>& rows) {
  const Row* const shm = reference_of(row, rows);
  if (shm == nullptr || row.path != "raw" || row.collective != "allreduce") return {};
  const double ratio = paired_ratio(row.times_us, shm->times_us);
  if (row.competitor == "raw mpich" || row.competitor == "raw openmpi")
    return Target{"against MPI", ratio, kAgainstMpi};
  if (row.competitor == "raw gloo") return Target{"against Gloo", ratio, kAgainstGloo};
  if (row.competitor == "memcpy" && row.bytes >= kLarge)
    return Target{"against a copy", ratio, 1 / most_copies(row)};
  if (row.competitor == "bound" && row.memory == "dabke" && row.ranks <= row.cores) {
    if (row.bytes >= 16 * kLarge && row.bytes <= 128 * kLarge)
      return Target{"against the bound", ratio, 1 / kBounds};
    if (row.bytes == kLarge) return Target{"against the bound", ratio, 1 / kBoundsInCache};
  }
  return {};
}

/// A hot call of 8 bytes through the whole path.
std::optional<Target> latency_target(const Row& row) {
  if (row.path != "api" || row.competitor != kReference || row.bytes != 8) return {};
  const double us = median(row.times_us);
  if (row.more.contains("pause_ms")) return Target{"after a pause", us, 30, false};
  if (row.ranks == 2) return Target{"2 ranks", us, 10, false};
  if (row.ranks == 4) return Target{"4 ranks", us, 40, false};
  return {};
}

std::optional<Target> step_target(const Row& row) {
  if (row.more.contains("timeline_us"))
    return Target{"with a timeline", paired_ratio(row.more.at("timeline_us"), row.times_us), 1.02, false};
  if (row.collective == "equal") {  // 10,000 tensors of 1 KB in 20 ms at 2 ranks
    if (row.competitor != kReference || row.ranks != 2) return {};
    return Target{"us a tensor", median(row.times_us) / static_cast<double>(row.count), 2, false};
  }
  const double limit = row.competitor == "dabke gloo" ? 1.25 : 1.15;
  return Target{"against one flat tensor", paired_ratio(row.times_us, row.more.at("flat_us")), limit, false};
}

}  // namespace

std::string Target::to_string() const {
  return fmt::format("{} {:.2f} {}", at_least ? ">=" : "<=", limit, is_met() ? "met" : "MISSED");
}

std::optional<Target> target_of(const Row& row, const std::vector<Row>& rows) {
  if (row.mode == "sweep") return raw_target(row, rows);
  if (row.mode == "latency") return latency_target(row);
  if (row.mode == "steps") return step_target(row);
  if (row.mode == "idle") return Target{"% of a core", median(row.more.at("cpu_percent")), 0.1, false};
  return {};
}

}  // namespace dabke::perf

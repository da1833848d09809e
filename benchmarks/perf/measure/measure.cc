#include "benchmarks/perf/measure/measure.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "benchmarks/perf/competitors/check.h"
#include "dabke/dabke.h"

namespace dabke::perf {
namespace {

// If more ranks than cores spin, a call can take a thousand times as long as a second ago. So a few calls
// show how many a run can have now. During the run, the ranks agree now and then whether its time is over.
constexpr std::int64_t kFew = 256;  // one call in so many
constexpr std::int64_t kParts = 8;
constexpr auto kSilence = std::chrono::seconds(2);

double microseconds(TimePoint time) {
  return std::chrono::duration<double, std::micro>(time.time_since_epoch()).count();
}

/// Microseconds from the begin of the first rank to the end of the last one. All processes of a host share
/// this clock. A rank's own time would leave out the wait for a core before it began.
Result<double> time_part(Competitor& competitor, Team& team, std::int64_t calls) {
  team.barrier();
  const auto begin = Clock::now();
  for (std::int64_t i = 0; i < calls; ++i) DABKE_RETURN_IF_ERROR(competitor.run());
  const auto end = Clock::now();
  return team.max(microseconds(end)) - team.min(microseconds(begin));
}

}  // namespace

void Bench::say(const std::string& where) {
  const auto now = Clock::now();
  if (team.rank() != 0 || options.quiet || now - last_said < kSilence) return;
  last_said = now;
  fmt::print(stderr, "dabke-perf ({}): {}\n", job, where);
}

Result<Memory> Memory::make(const Bench& bench, std::int64_t bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t size = (static_cast<std::size_t>(bytes) + kPage - 1) / kPage * kPage + kPage;
  Memory memory;
  if (bench.options.memory == "dabke" && bench.heap != nullptr) {
    DABKE_ASSIGN_OR_RETURN(void* const data, bench.heap->allocate(size));
    memory.data_ = {static_cast<std::byte*>(data),
                    [heap = bench.heap](std::byte* mine) { (void)heap->free(mine); }};
  } else if (bench.options.memory == "dabke") {
    memory.data_ = {static_cast<std::byte*>(dabke_alloc(size)), &dabke_free};
    if (!memory.data_)
      return Status(Code::out_of_memory, fmt::format("--memory dabke: {}", dabke_last_error()));
  } else {
    memory.data_ = {static_cast<std::byte*>(std::aligned_alloc(kPage, size)), &std::free};
    if (!memory.data_) {
      return Status(Code::out_of_memory,
                    fmt::format("there are no {} bytes for a rank's buffer; measure less with -e", size));
    }
  }
  std::memset(memory.data(), 0, size);
  return memory;
}

Result<double> time_calls(Competitor& competitor, Team& team, std::int64_t calls, double limit_us) {
  if (const std::int64_t few = calls / kFew; few > 0) {
    DABKE_ASSIGN_OR_RETURN(const double us, time_part(competitor, team, few));
    const double fit = limit_us * static_cast<double>(few) / std::max(us, 1e-3);
    calls = std::clamp<std::int64_t>(static_cast<std::int64_t>(fit), 1, calls);
  }
  const std::int64_t part = std::max<std::int64_t>(calls / kParts, 1);
  double took = 0;
  std::int64_t done = 0;
  while (done < calls && (done == 0 || took < limit_us)) {
    const std::int64_t now = std::min(part, calls - done);
    DABKE_ASSIGN_OR_RETURN(const double us, time_part(competitor, team, now));
    took += us;
    done += now;
  }
  return took / static_cast<double>(done);
}

Result<std::int64_t> calls_for(Competitor& competitor, Team& team, const Options& options) {
  const double wanted_us = options.seconds * 1e6;
  for (std::int64_t calls = 1;; calls = std::min(calls * 4, options.iterations)) {
    DABKE_ASSIGN_OR_RETURN(const double us, time_calls(competitor, team, calls, wanted_us));
    if (us * static_cast<double>(calls) < wanted_us / 10 && calls < options.iterations) continue;
    const double fit = us > 0 ? wanted_us / us : 1;
    return fit >= static_cast<double>(options.iterations)
               ? options.iterations
               : std::max<std::int64_t>(1, static_cast<std::int64_t>(fit));
  }
}

Status warm_up(Competitor& competitor, const Options& options, std::int64_t calls) {
  for (std::int64_t i = 0; i < std::min(options.warm_up, calls); ++i) DABKE_RETURN_IF_ERROR(competitor.run());
  return {};
}

Result<std::int64_t> check_call(Competitor& competitor, Team& team, const Call& call, int salt) {
  fill_for_check(call, salt);
  team.barrier();
  DABKE_RETURN_IF_ERROR(competitor.run());
  return static_cast<std::int64_t>(team.sum(static_cast<double>(count_wrong(call, salt))));
}

Row row_of(const Bench& bench, const Competitor& competitor, const Call& call) {
  return {.job = bench.job,
          .path = bench.options.raw ? "raw" : "api",
          .competitor = competitor.name(),
          .collective = std::string(name_of(call.kind)),
          .dtype = std::string(name_of(call.dtype)),
          .op = reduces(call.kind) ? std::string(name_of(call.op)) : "",
          .in_place = call.in_place(),
          .memory = bench.options.memory,
          .ranks = call.ranks,
          .cores = bench.cores,
          .bytes = call.bytes(),
          .count = std::max(call.elements, call.output_elements)};
}

}  // namespace dabke::perf

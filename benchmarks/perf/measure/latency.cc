#include <time.h>

#include <algorithm>

#include <fmt/format.h>

#include "benchmarks/perf/competitors/check.h"
#include "benchmarks/perf/measure/measure.h"
#include "benchmarks/perf/measure/sizes.h"

namespace dabke::perf {
namespace {

constexpr std::int64_t kLeastCalls = 20;

double microseconds_since(TimePoint begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

/// All ranks sleep until the same moment. The next call finds a runtime that has slept as well.
void pause(Team& team, double ms) {
  constexpr auto kWake = std::chrono::microseconds(200);  // a sleep ends late
  const double start =
      team.max(std::chrono::duration<double>(Clock::now().time_since_epoch()).count() + ms * 1e-3);
  const TimePoint moment{seconds_to_duration(start)};
  const auto sleep = std::chrono::nanoseconds(moment - kWake - Clock::now()).count();
  if (sleep > 0) {
    const timespec time{sleep / 1'000'000'000, sleep % 1'000'000'000};
    ::nanosleep(&time, nullptr);
  }
  while (Clock::now() < moment) ::sched_yield();
}

Status run_once(Bench& bench, Competitor& competitor, const Call& call, Row& row) {
  const Options& options = bench.options;
  DABKE_RETURN_IF_ERROR(competitor.begin(call));
  row.detail = competitor.detail();
  fill_with_neutral(call);
  if (row.iterations == 0 && options.pause_ms > 0) {
    row.iterations =
        std::max(kLeastCalls, static_cast<std::int64_t>(options.seconds * 1e3 / options.pause_ms));
  } else if (row.iterations == 0) {
    DABKE_ASSIGN_OR_RETURN(row.iterations, calls_for(competitor, bench.team, options));
    row.iterations = std::max(kLeastCalls, row.iterations);
  }
  DABKE_RETURN_IF_ERROR(warm_up(competitor, options, row.iterations));
  bench.team.barrier();
  std::vector<double> took;
  took.reserve(static_cast<std::size_t>(row.iterations));
  for (std::int64_t i = 0; i < row.iterations; ++i) {
    if (options.pause_ms > 0) pause(bench.team, options.pause_ms);
    const auto begin = Clock::now();
    DABKE_RETURN_IF_ERROR(competitor.run());
    took.push_back(microseconds_since(begin));
  }
  std::ranges::sort(took);
  row.times_us.push_back(bench.team.max(took[took.size() / 2]));
  row.more["p99_us"].push_back(bench.team.max(took[took.size() * 99 / 100]));
  row.more["best_us"].push_back(bench.team.min(took.front()));
  if (options.pause_ms > 0) row.more["pause_ms"].push_back(options.pause_ms);
  if (options.check && competitor.has_result()) {
    DABKE_ASSIGN_OR_RETURN(const std::int64_t wrong, check_call(competitor, bench.team, call, 1));
    row.wrong = std::max<std::int64_t>(row.wrong, 0) + wrong;
  }
  competitor.end();
  return {};
}

}  // namespace

Result<std::vector<Row>> run_latency(Bench& bench) {
  const Options& options = bench.options;
  const bool in_place = options.in_place.front();
  Call call =
      call_of(options.kind, options.dtype, options.op, bench.team.rank(), bench.team.size(), options.begin);
  DABKE_ASSIGN_OR_RETURN(const Memory input, Memory::make(bench, call.bytes()));
  DABKE_ASSIGN_OR_RETURN(const Memory output, Memory::make(bench, call.bytes()));
  call.input = input.data();
  call.output = in_place ? input.data() : output.data();
  std::vector<std::pair<Competitor*, Row>> entries;
  for (const auto& competitor : bench.competitors) {
    if (!competitor->can_run(call)) continue;
    entries.emplace_back(competitor.get(), row_of(bench, *competitor, call));
    entries.back().second.mode = "latency";
  }
  for (int run = 0; run < options.runs; ++run) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      auto& [competitor, row] = entries[(i + static_cast<std::size_t>(run)) % entries.size()];
      bench.say(fmt::format("{}, run {} of {}", competitor->name(), run + 1, options.runs));
      DABKE_RETURN_IF_ERROR(run_once(bench, *competitor, call, row));
    }
  }
  std::vector<Row> rows;
  for (auto& [competitor, row] : entries) rows.push_back(std::move(row));
  return rows;
}

}  // namespace dabke::perf

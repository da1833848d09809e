#include <algorithm>

#include <fmt/format.h>

#include "benchmarks/perf/competitors/check.h"
#include "benchmarks/perf/measure/measure.h"
#include "benchmarks/perf/measure/sizes.h"

namespace dabke::perf {
namespace {

/// One competitor at one size.
struct Entry {
  Competitor* competitor;
  Row row;
};

/// A first check: whether the result is right, and how many calls make a run.
Status prepare(Bench& bench, Entry& entry, const Call& call) {
  Competitor& competitor = *entry.competitor;
  DABKE_RETURN_IF_ERROR(competitor.begin(call));
  entry.row.detail = competitor.detail();
  if (bench.options.check && competitor.has_result()) {
    DABKE_ASSIGN_OR_RETURN(entry.row.wrong, check_call(competitor, bench.team, call, 0));
  }
  fill_with_neutral(call);
  DABKE_ASSIGN_OR_RETURN(entry.row.iterations, calls_for(competitor, bench.team, bench.options));
  competitor.end();
  return {};
}

Status run_once(Bench& bench, Entry& entry, const Call& call, bool check) {
  Competitor& competitor = *entry.competitor;
  DABKE_RETURN_IF_ERROR(competitor.begin(call));
  fill_with_neutral(call);
  DABKE_RETURN_IF_ERROR(warm_up(competitor, bench.options, entry.row.iterations));
  DABKE_ASSIGN_OR_RETURN(const double us,
                         time_calls(competitor, bench.team, entry.row.iterations, most_us(bench.options)));
  entry.row.times_us.push_back(us);
  if (check) {  // again, after thousands of calls
    DABKE_ASSIGN_OR_RETURN(const std::int64_t wrong, check_call(competitor, bench.team, call, 1));
    entry.row.wrong += wrong;
  }
  competitor.end();
  return {};
}

Status measure_size(Bench& bench, const Call& call, std::vector<Row>& rows) {
  const Options& options = bench.options;
  std::vector<Entry> entries;
  for (const auto& competitor : bench.competitors) {
    if (!competitor->can_run(call)) continue;
    Row row = row_of(bench, *competitor, call);
    row.mode = "sweep";
    entries.push_back({competitor.get(), std::move(row)});
  }
  for (Entry& entry : entries) DABKE_RETURN_IF_ERROR(prepare(bench, entry, call));
  for (int run = 0; run < options.runs; ++run) {
    bench.say(fmt::format("{}, run {} of {}", size_text(call.bytes()), run + 1, options.runs));
    const double line_ns = bench.team.line_ns();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      // Each competitor begins once, so that its neighbour in the row is not always the same.
      Entry& entry = entries[(i + static_cast<std::size_t>(run)) % entries.size()];
      const bool check = options.check && run + 1 == options.runs && entry.competitor->has_result();
      DABKE_RETURN_IF_ERROR(run_once(bench, entry, call, check));
      entry.row.more["line_ns"].push_back(line_ns);
    }
  }
  for (Entry& entry : entries) rows.push_back(std::move(entry.row));
  return {};
}

}  // namespace

Result<std::vector<Row>> run_sweep(Bench& bench) {
  const Options& options = bench.options;
  std::vector<std::int64_t> sizes = sizes_between(options.begin, options.end, options.factor);
  if (options.kind == CollectiveKind::barrier) sizes = {0};
  // The smallest sizes are rounded up, and may be larger than requested.
  const Call largest = call_of(options.kind, options.dtype, options.op, 0, bench.team.size(), sizes.back());
  DABKE_ASSIGN_OR_RETURN(const Memory input, Memory::make(bench, largest.bytes()));
  DABKE_ASSIGN_OR_RETURN(const Memory output,
                         Memory::make(bench, options.in_place.back() ? 0 : largest.bytes()));
  std::vector<Row> rows;
  for (const bool in_place : options.in_place) {
    std::int64_t last = -1;
    for (const std::int64_t size : sizes) {
      Call call =
          call_of(options.kind, options.dtype, options.op, bench.team.rank(), bench.team.size(), size);
      if (call.bytes() == last) continue;
      last = call.bytes();
      call.input = input.data();
      call.output = in_place ? input.data() : output.data();
      DABKE_RETURN_IF_ERROR(measure_size(bench, call, rows));
    }
  }
  return rows;
}

}  // namespace dabke::perf

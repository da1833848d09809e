// One rank of a job that measures.
#pragma once

#include <vector>

#include "benchmarks/perf/options.h"
#include "benchmarks/perf/report/results.h"

namespace dabke::perf {

/// True if a launcher has started this process as a rank.
bool is_in_job();

struct RankResult {
  int rank = 0;
  std::vector<Row> rows;  // the same on every rank
};
/// Joins the job, measures, and leaves it.
Result<RankResult> measure_as_rank(const Options& options);

}  // namespace dabke::perf

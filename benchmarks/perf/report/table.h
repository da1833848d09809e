// The results as text of at most 120 columns.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/perf/options.h"
#include "benchmarks/perf/report/results.h"

namespace dabke::perf {

std::string to_table(const std::vector<Row>& rows, const Options& options);

}  // namespace dabke::perf

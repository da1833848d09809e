// The best that plain memory could do, as competitors. All ranks run at the
// same time, and none waits for another.
#pragma once

#include <memory>

#include "benchmarks/perf/competitors/competitor.h"

namespace dabke::perf {

/// Each rank reads and writes as many bytes of its own ordinary memory once: no allreduce can do less.
std::unique_ptr<Competitor> make_bound();
/// Each rank copies its bytes once to other memory of the same size.
std::unique_ptr<Competitor> make_memcpy();

}  // namespace dabke::perf

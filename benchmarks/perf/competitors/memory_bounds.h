// What plain memory could do at best, as competitors; all ranks at the same time, none waits for another.
#pragma once

#include <memory>

#include "benchmarks/perf/competitors/competitor.h"

namespace dabke::perf {

/// Each rank reads and writes as many bytes of ordinary memory of its own once: no allreduce can do less.
std::unique_ptr<Competitor> make_bound();
/// Each rank copies its bytes once to other memory, as large.
std::unique_ptr<Competitor> make_memcpy();

}  // namespace dabke::perf

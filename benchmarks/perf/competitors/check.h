// What ranks put into a call, and arithmetic that says what must come out.
#pragma once

#include <cstdint>

#include "benchmarks/perf/competitors/call.h"

namespace dabke::perf {

/// Fills the input with small whole numbers, which every dtype holds exactly, as do their sums over up to 60
/// ranks; another `salt` gives others. Everything in the output is wrong after it, unless it is the input.
void fill_for_check(const Call& call, int salt);
/// Elements of the output that are not what fill_for_check() of all ranks makes them.
std::int64_t count_wrong(const Call& call, int salt);

/// Fills the input with what a reduction in place gives again, however often: nothing overflows while calls
/// are timed.
void fill_with_neutral(const Call& call);

}  // namespace dabke::perf

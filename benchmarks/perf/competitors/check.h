// The inputs of a call, and the arithmetic that gives its right outputs.
#pragma once

#include <cstdint>

#include "benchmarks/perf/competitors/call.h"

namespace dabke::perf {

/// Fills the input with small whole numbers. Every dtype holds them exactly, and also their
/// sums over up to 60 ranks. Another `salt` gives other numbers. Afterwards, the whole
/// output is wrong, unless it is the input.
void fill_for_check(const Call& call, int salt);
/// Counts the elements of the output that are wrong after fill_for_check() on all ranks.
std::int64_t count_wrong(const Call& call, int salt);

/// Fills the input with numbers that a reduction in place leaves unchanged, however often. So
/// nothing overflows while calls are timed.
void fill_with_neutral(const Call& call);

}  // namespace dabke::perf

// Factors of floats that their dtypes must round.
#pragma once

#include <string>
#include <vector>

#include "tests/in_process/rank.h"

namespace dabke::test {

/// Runs allreduces, alone and in groups, and reducescatters with them, of sizes for each algorithm of a backend, and
/// compares every bit. Every rank calls it alike; what was wrong.
std::vector<std::string> wrong_factors(Rank& self);

}  // namespace dabke::test

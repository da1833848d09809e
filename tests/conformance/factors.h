// Factors of floats that their dtypes must round.
#pragma once

#include <string>
#include <vector>

#include "tests/in_process/rank.h"

namespace dabke::test {

/// Runs allreduces, alone and in groups, and reducescatters with such factors, at a size for each algorithm
/// of a backend. Compares every bit. All ranks call it with the same arguments. Returns what was wrong.
std::vector<std::string> wrong_factors(Rank& self);

}  // namespace dabke::test

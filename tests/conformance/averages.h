// Averages of numbers whose sum does not fit into their dtype.
#pragma once

#include <string>
#include <vector>

#include "tests/in_process/rank.h"

namespace dabke::test {

/// Runs allreduces and reducescatters of such numbers, for every dtype that has them, at a size for each
/// algorithm of a backend. All ranks call it with the same arguments. Returns what was wrong.
/// `rounds_once` is false if a sum of 16-bit floats is rounded at each step, so that each
/// partial sum must be a number of its dtype.
std::vector<std::string> wrong_averages(Rank& self, bool rounds_once = true);

}  // namespace dabke::test

// Averages of numbers whose sum their dtype cannot hold.
#pragma once

#include <string>
#include <vector>

#include "tests/in_process/rank.h"

namespace dabke::test {

/// Runs allreduces and reducescatters of them, of every dtype that has such numbers and of sizes for each
/// algorithm of a backend. Every rank calls it alike; what was wrong. `rounds_once`: false where a sum of 16-bit
/// floats is rounded at each step, and each partial sum must be a number of its dtype.
std::vector<std::string> wrong_averages(Rank& self, bool rounds_once = true);

}  // namespace dabke::test

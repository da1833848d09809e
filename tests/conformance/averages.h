// Averages of numbers whose sum their dtype cannot hold.
#pragma once

#include <string>
#include <vector>

#include "tests/in_process/rank.h"

namespace dabke::testing {

/// Runs allreduces and reducescatters of them, of every dtype that has such numbers and of sizes for each
/// algorithm of a backend. Every rank calls it alike; what was wrong.
std::vector<std::string> wrong_averages(Rank& self);

}  // namespace dabke::testing

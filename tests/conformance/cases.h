// The cases of the conformance matrix, and how a rank runs them, whether it is a thread or a process.
#pragma once

#include <string>
#include <vector>

#include "tests/conformance/case.h"

namespace dabke::test {

/// Every case; if `thorough`, the commonest operations with every placement and pair of scales, which is too
/// much for a slow backend.
std::vector<Case> cases_for(int ranks, bool thorough);
/// Submits the cases in an order of this rank's own, `together` at a time, and says what came out wrong.
std::vector<std::string> run_cases(Rank& self, const std::vector<Case>& cases, unsigned seed,
                                   std::size_t together);

}  // namespace dabke::test

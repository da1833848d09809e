// The cases of the conformance matrix, and how a rank runs them, as a thread or as a process.
#pragma once

#include <string>
#include <vector>

#include "tests/conformance/case.h"

namespace dabke::test {

/// Returns all cases. If `thorough`, the commonest operations have every placement and pair of scales,
/// which is too much for a slow backend.
std::vector<Case> cases_for(int ranks, bool thorough);
/// Submits the cases in this rank's own order, `together` at a time. Returns what was wrong.
std::vector<std::string> run_cases(Rank& self, const std::vector<Case>& cases, unsigned seed,
                                   std::size_t together);

}  // namespace dabke::test

// The combinations of parameters that are tested: all of them, or so many that every two values of two
// parameters meet.
#pragma once

#include <vector>

namespace dabke::test {

/// DABKE_TEST_MATRIX: "full" tests all jobs (a backend or channel, a number of ranks, a setting) with all cases (a dtype, an
/// operation, a length...) in each; without it each two values of a job meet in one at least, with all cases; "pairwise", which
/// sanitizer builds set, has pairs of both. Anything else is refused.
bool jobs_are_pairwise();
bool cases_are_pairwise();

/// Rows of one index for each parameter, below its count in `counts`.
std::vector<std::vector<int>> choose_rows(const std::vector<int>& counts, bool pairwise);

/// As many rows as the largest of `counts`, in which each index of each parameter is at least once (each choice coverage);
/// which ones meet is another with each seed. What a sanitizer looks for is less in what meets than in that it runs.
std::vector<std::vector<int>> each_choice(const std::vector<int>& counts, unsigned seed);

}  // namespace dabke::test

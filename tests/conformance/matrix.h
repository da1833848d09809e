// The combinations of parameters that are tested: all of them, or enough that
// every two values of two parameters meet.
#pragma once

#include <vector>

namespace dabke::test {

/// DABKE_TEST_MATRIX decides. A job is a backend or channel, a number of ranks and a setting. A case is a
/// dtype, an operation, a length and so on. Any other value is refused.
/// * "full": all jobs, each with all cases.
/// * not set: every two values of a job's parameters meet in at least one job, and each job has all cases.
/// * "pairwise", which sanitizer builds set: pairs of both.
bool jobs_are_pairwise();
bool cases_are_pairwise();

/// Returns rows with one index for each parameter, below its count in `counts`.
std::vector<std::vector<int>> choose_rows(const std::vector<int>& counts, bool pairwise);

/// Returns as many rows as the largest of `counts`. Each index of each parameter occurs at least
/// once (each-choice coverage), and the seed decides which indices meet. A sanitizer needs code to
/// run, and hardly in all combinations.
std::vector<std::vector<int>> each_choice(const std::vector<int>& counts, unsigned seed);

}  // namespace dabke::test

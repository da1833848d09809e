// The combinations of parameters that are tested: all of them, or so many that every two values of two
// parameters meet.
#pragma once

#include <vector>

namespace dabke::testing {

/// Whether DABKE_TEST_MATRIX=pairwise; sanitizer builds set it. Anything else but "full" or unset is refused.
bool matrix_is_pairwise();

/// Rows of one index for each parameter, below its count in `counts`.
std::vector<std::vector<int>> choose_rows(const std::vector<int>& counts, bool pairwise);

}  // namespace dabke::testing

// The cost of the negotiation for a training step, from 16 ranks to thousands.
#pragma once

namespace dabke::test {

/// Prints one row per size, tree against star. Returns the exit status.
int print_scaling(int fewest_ranks, int most_ranks);

}  // namespace dabke::test

// The results of NCCL's reductions where libraries differ, one line each: "figure: WHAT | RESULT".
#pragma once

namespace dabke::test {

/// Prints the results among the ranks of the job, and returns the exit code:
/// - a minimum and a maximum with a NaN and with zeros of both signs
/// - the type in which sums of 16-bit floats are kept
int show_arithmetic();

}  // namespace dabke::test

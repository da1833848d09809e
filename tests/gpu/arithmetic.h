// What NCCL's reductions make of numbers for which libraries differ, a line each: "figure: WHAT | WHAT IT GAVE".
#pragma once

namespace dabke::test {

/// A minimum and a maximum with a NaN and with zeros of both signs, and what sums of 16-bit floats are kept in: among the
/// ranks of the job. The exit code.
int show_arithmetic();

}  // namespace dabke::test

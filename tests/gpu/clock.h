// Compares a device's times, as a timeline has them, with the host's times.
#pragma once

namespace dabke::test {

/// Prints a figure. Returns the exit code.
int compare_clocks();

}  // namespace dabke::test
